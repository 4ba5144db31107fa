package cache_test

import (
	"testing"

	"github.com/cocache/cocache/runtime/cache"
)

func TestReadThrough(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a, b := w.instance(), w.instance()
		for _, step := range []struct {
			on     *instance
			source cache.Source
			sent   string
		}{
			{a, cache.FromLoader, "read 1 fill 1"},
			{a, cache.FromL2, ""},
			{b, cache.FromL1, "read 1"},
			{b, cache.FromL2, ""},
		} {
			found := step.on.get(t, "k")
			if found.Value != "v1" || found.Source != step.source {
				t.Errorf("got %q from %v, want v1 from %v", found.Value, found.Source, step.source)
			}
			if sent := step.on.stage.commands(); sent != step.sent {
				t.Errorf("commands %q, want %q", sent, step.sent)
			}
		}
		if n := w.source.count("k"); n != 1 {
			t.Errorf("%d loads, want 1", n)
		}
	})
}

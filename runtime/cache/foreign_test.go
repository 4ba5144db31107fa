package cache_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/loader"
)

// Content that nobody can read is replaced by one load if it is still what was
// read; what may be another's on purpose is left alone (I6).
func TestUnreadableContent(t *testing.T) {
	whole, err := entry.Encode(entry.Entry{State: entry.Value, Until: entry.Never, Body: entry.Body{Payload: "old"}})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		commands []string
		replaced bool
		reason   cache.Reason
	}{
		"foreign bytes": {[]string{"SET", "random"}, true, cache.NotDegraded},
		"empty":         {[]string{"SET", ""}, true, cache.NotDegraded},
		"cut":           {[]string{"SET", whole[:100]}, true, cache.NotDegraded},
		"bad sizes":     {[]string{"SET", whole[:168] + "\xff" + whole[169:]}, true, cache.NotDegraded},
		"older format":  {[]string{"SET", whole[:2] + "0" + whole[3:]}, true, cache.NotDegraded},
		"unknown state": {[]string{"SET", whole[:3] + "Z" + whole[4:]}, true, cache.NotDegraded},
		"other codec":   {[]string{"SET", whole[:167] + "\x01" + whole[168:]}, true, cache.NotDegraded},
		"newer format":  {[]string{"SET", whole[:2] + "2" + whole[3:]}, false, cache.NewerFormat},
		"list":          {[]string{"RPUSH", "item"}, false, cache.ForeignContent},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.source.set("k", "v")
				w.command(c.commands[0], "cocache:{}n:k", c.commands[1])
				a, b := w.instance(), w.instance()
				found := a.get(t, "k")
				if found.Value != "v" || found.Degraded != c.reason || found.StoredL1 != c.replaced {
					t.Errorf("a: %+v", found)
				}
				if found := b.get(t, "k"); found.Value != "v" || (found.Source == cache.FromL1) != c.replaced {
					t.Errorf("b: %+v", found)
				}
				if !c.replaced {
					if sent := a.stage.commands(); sent != "read 1" {
						t.Errorf("a sent %q", sent)
					}
				}
				if err := a.Put(ctx, "k", []byte("put"), cache.PutOptions{}); err != nil {
					t.Error(err)
				}
				if raw := w.raw("k"); raw != "Vput" {
					t.Errorf("after a put L1 holds %q", raw)
				}
			})
		})
	}
}

// Content that changes between the read and the reclaim stays.
func TestReclaimLosesRace(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		w.command("SET", "cocache:{}n:k", "random")
		a, b := w.instance(), w.instance()
		a.stage.stageBefore("reclaim", func() { b.Put(ctx, "k", []byte("v2"), cache.PutOptions{}) })
		if found := a.get(t, "k"); found.Value != "v1" || found.StoredL1 {
			t.Errorf("a: %+v", found)
		}
		if raw := w.raw("k"); raw != "Vv2" {
			t.Errorf("L1 holds %q", raw)
		}
	})
}

// Any bytes are a key, each its own.
func TestKeys(t *testing.T) {
	bubble(t, func(w *world) {
		echo := func(o *cache.Options) {
			o.Loader = loader.Func(func(_ context.Context, req loader.Request) (loader.Result, error) {
				return loader.Result{Value: []byte("<" + strings.ToValidUTF8(req.Key, "?") + ">")}, nil
			})
		}
		a, b := w.instance(echo), w.instance(echo)
		keys := []string{"", "}", "{x}1", "{x}2", "{}", "\x00", "a/b", "a%2Fb", "../x", "*", "a b", "ключ", "n:k", ":", strings.Repeat("k", 4096)}
		for _, key := range keys {
			a.get(t, key)
		}
		for _, key := range keys {
			if found := b.get(t, key); found.Value != "<"+key+">" || found.Source != cache.FromL1 {
				t.Errorf("%q: %+v", key, found)
			}
		}
		a.Invalidate(ctx, "")
		if found, _ := b.Peek(ctx, "}"); found.Kind != cache.Value {
			t.Error("dropping one key dropped another")
		}
	})
}

var _ cache.L1 = (*l1.Namespace)(nil)

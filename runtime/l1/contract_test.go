package l1

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cocache/cocache/lua"
)

var allScripts = []*script{readScript, fillScript, releaseScript, reclaimScript, putScript, invalidateScript, probeScript}

func TestCallersKeepTheContractOfTheirScript(t *testing.T) {
	for _, s := range allScripts {
		t.Run(s.verb, func(t *testing.T) {
			h, err := lua.ParseHeader(s.source)
			if err != nil {
				t.Fatal(err)
			}
			if h.Verb != s.verb {
				t.Errorf("called %q, is %q", s.verb, h.Verb)
			}
			if !slices.Equal(h.Args, s.args) {
				t.Errorf("sends %q, takes %q", s.args, h.Args)
			}
			if !reflect.DeepEqual(h.Replies, s.replies) {
				t.Errorf("expects %q, answers %q", s.replies, h.Replies)
			}
			if h.Variadic != s.variadic || len(h.Keys) != 1 {
				t.Errorf("variadic %v, the header says %v of %q", s.variadic, h.Variadic, h.Keys)
			}
			if fenced := h.Args[0] == "not-after"; fenced != s.fenced() || fenced == (s.replies[tagLate] == nil) {
				t.Errorf("not-after %v, fenced %v, late %v", fenced, s.fenced(), s.replies[tagLate])
			}
		})
	}
}

func TestOnlyFillAndReleaseHaveNoNotAfter(t *testing.T) {
	var unfenced []string
	for _, s := range allScripts {
		if !s.fenced() {
			unfenced = append(unfenced, s.verb)
		}
	}
	if !slices.Equal(unfenced, []string{"fill", "release"}) {
		t.Errorf("no not-after: %q", unfenced)
	}
}

func TestEveryScriptFileHasACaller(t *testing.T) {
	called := map[string]bool{}
	for _, s := range allScripts {
		called[s.verb] = true
	}
	files, err := filepath.Glob("../../lua/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	there := map[string]bool{}
	for _, file := range files {
		there[strings.TrimSuffix(filepath.Base(file), ".lua")] = true
		if _, err := os.ReadFile(file); err != nil {
			t.Error(err)
		}
	}
	if !maps.Equal(called, there) {
		t.Errorf("called %v, files %v", called, there)
	}
}

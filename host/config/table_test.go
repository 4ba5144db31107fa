package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cocache/cocache/host/config/document"
)

// TestTables writes down every field with its kind, default and meaning, as
// the tables have them: a change of what users may write shows in the golden
// file.
func TestTables(t *testing.T) {
	var b strings.Builder
	describe(t, &b, "", defaults().fields(new(reader)))
	golden(t, "testdata/fields.txt", b.String())
}

func describe(t *testing.T, b *strings.Builder, path string, fields section) {
	seen := map[string]bool{}
	for _, f := range fields {
		full := document.Join(path, f.name)
		if f.doc == "" || f.kind == "" || f.read == nil || seen[f.name] {
			t.Errorf("%s: incomplete or twice: %+v", full, f)
		}
		seen[f.name] = true
		fmt.Fprintf(b, "%s: %s", full, f.kind)
		if len(f.words) > 0 {
			fmt.Fprintf(b, " (%s)", strings.Join(f.words, " | "))
		}
		switch {
		case f.required:
			b.WriteString(", required")
		case f.show != nil && f.show() != "":
			b.WriteString(" = " + f.show())
		}
		if f.secret {
			b.WriteString(", secret")
		}
		b.WriteString(" -- " + f.doc + "\n")
		if f.kind == "mapping of namespace" {
			full += ".NAME"
		}
		describe(t, b, full, f.fields)
	}
}

// TestDefaultsCoverNamespaces: what a namespace may say, defaults may say, or
// refuse with a reason.
func TestDefaultsCoverNamespaces(t *testing.T) {
	var ns, ds []string
	collect(&ns, "", namespaceFields(new(Namespace)))
	collect(&ds, "", namespaceDefaults(new(Namespace)))
	for _, gone := range []string{"loader.wasm.file", "loader.wasm.sha256", "loader.js.file", "loader.js.inline"} {
		ds = append(ds, gone)
	}
	if a, b := set(ns), set(ds); !reflect.DeepEqual(a, b) {
		t.Errorf("namespaces have %v,\ndefaults have %v", a, b)
	}
}

func collect(names *[]string, path string, fields section) {
	for _, f := range fields {
		*names = append(*names, document.Join(path, f.name))
		collect(names, document.Join(path, f.name), f.fields)
	}
}

func set(names []string) map[string]bool {
	s := map[string]bool{}
	for _, n := range names {
		s[n] = true
	}
	return s
}

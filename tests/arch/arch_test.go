// Package arch_test holds the layers apart: it reads the imports of every file
// and fails on one that points the wrong way, with the reason.
package arch_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/cocache/cocache/"

// layer may import, of this module, only itself and what it names.
type layer struct {
	dir    string
	may    []string
	reason string
}

// layers: the longest dir that matches a package decides.
var layers = []layer{
	{"lua", nil, "scripts know nothing"},
	{"runtime/loader", nil, "the contract of a loader is read by authors who need nothing else of ours"},
	{"runtime/policy", []string{"runtime/loader"}, "a policy is plain data"},
	{"runtime/entry", nil, "the wire format is pure"},
	{"runtime/frame", []string{"runtime/entry"}, "the wire format is pure"},
	{"runtime/audit", []string{"runtime/entry", "runtime/frame"}, "an account of messages needs no connection"},
	{"runtime/codec", []string{"runtime/entry", "runtime/policy"}, "codecs judge bytes"},
	{"runtime/stamp", nil, "stamps know no keys' values"},
	{"runtime/flight", []string{"runtime/stamp"}, "a flight does not know what it carries"},
	{"runtime/notice", nil, "a limit of log lines"},
	{"runtime/pending", []string{"runtime/frame"}, "a queue tries nothing"},
	{"runtime/l2", []string{"runtime/stamp"}, "L2 knows no Redis and no loader"},
	{"runtime/l1", []string{"lua", "runtime/audit", "runtime/entry", "runtime/frame", "runtime/notice", "runtime/policy"}, "L1 decides nothing, so it needs no tier and no loader"},
	{"runtime/channel", []string{"runtime/audit", "runtime/entry", "runtime/frame", "runtime/notice"}, "the channel tells; it knows no stamps or copies"},
	{"runtime/cache", []string{"runtime"}, "the story knows loaders as an interface and no engine"},
	{"loaders", []string{"loaders", "runtime/loader", "sdk"}, "an engine needs the contract of a loader and nothing of the cache"},
	{"host", []string{"host", "loaders", "runtime"}, "hosting is above the cache and the engines, below the command"},
	{"sdk", []string{"sdk"}, "authors of loaders need nothing of ours but the kit"},
	{"cmd", []string{"host"}, "the command is a thin shell around the host"},
	{"examples", []string{"sdk"}, "an example is what a user writes"},
	{"tests", []string{"tests", "host", "loaders", "runtime", "lua", "sdk", "cmd"}, "tests may look at everything but examples"},
}

// bans: packages of others that a layer must not import.
var bans = []struct{ dir, pkg, reason string }{
	{"runtime/cache", "github.com/redis/rueidis", "the story reaches Redis only through L1's small interface"},
	{"runtime/cache", "github.com/tetratelabs/wazero", "the story knows no engine"},
	{"runtime/cache", "github.com/dop251/goja", "the story knows no engine"},
	{"runtime", "github.com/prometheus", "the protocol counts; how figures are shown is the host's"},
	{"runtime", "net/http", "the protocol speaks to Redis only"},
	{"host/config", "github.com/tetratelabs/wazero", "reading a configuration compiles nothing"},
}

func TestImports(t *testing.T) {
	files := 0
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git" || name == "../../tests/bench") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files++
		rel, err := filepath.Rel("../..", name)
		if err != nil {
			return err
		}
		return checkFile(t, name, path.Dir(filepath.ToSlash(rel)))
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Fatalf("only %d files found: the walk is broken", files)
	}
}

func checkFile(t *testing.T, name, pkg string) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	for _, spec := range file.Imports {
		if fault := judge(pkg, strings.Trim(spec.Path.Value, `"`)); fault != "" {
			t.Errorf("%s imports %s: %s", name, spec.Path.Value, fault)
		}
	}
	return nil
}

// judge answers why pkg must not import target; empty when it may.
func judge(pkg, target string) string {
	for _, ban := range bans {
		if within(pkg, ban.dir) && within(target, ban.pkg) {
			return ban.reason
		}
	}
	ours, ok := strings.CutPrefix(target, module)
	if !ok {
		return ""
	}
	l, ok := layerOf(pkg)
	if !ok {
		return fmt.Sprintf("package %s belongs to no layer: add it to the table", pkg)
	}
	if within(ours, l.dir) || slices.ContainsFunc(l.may, func(dir string) bool { return within(ours, dir) }) {
		return ""
	}
	return fmt.Sprintf("layer %s may import %v: %s", l.dir, l.may, l.reason)
}

func layerOf(pkg string) (layer, bool) {
	best := layer{}
	for _, l := range layers {
		if within(pkg, l.dir) && len(l.dir) > len(best.dir) {
			best = l
		}
	}
	return best, best.dir != ""
}

func within(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

// The judge must be able to say no.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		pkg, target string
		allowed     bool
	}{
		{"runtime/cache", module + "runtime/l1", true},
		{"runtime/cache", "github.com/redis/rueidis", false},
		{"runtime/cache", module + "loaders/js", false},
		{"runtime/l1", module + "runtime/cache", false},
		{"runtime/loader", module + "runtime/policy", false},
		{"loaders/js", module + "runtime/cache", false},
		{"loaders/js", module + "runtime/loader", true},
		{"sdk/wasm", module + "runtime/loader", false},
		{"cmd/cocache-run", module + "runtime/cache", false},
		{"host/admin", module + "runtime/cache", true},
		{"runtime/l2", "net/http", false},
		{"nowhere", module + "lua", false},
	} {
		if fault := judge(c.pkg, c.target); (fault == "") != c.allowed {
			t.Errorf("%s → %s: %q, want allowed=%v", c.pkg, c.target, fault, c.allowed)
		}
	}
}

// Every folder at the top is one that a newcomer is told about.
func TestTop(t *testing.T) {
	known := []string{"cmd", "examples", "host", "loaders", "lua", "runtime", "sdk", "tests"}
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(known, e.Name()) {
			t.Errorf("folder %s at the top is in no map", e.Name())
		}
	}
}

// Every package says what it owns.
func TestPackageDocs(t *testing.T) {
	docs := map[string]bool{}
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git") {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			return err
		}
		dir := filepath.Dir(name)
		docs[dir] = docs[dir] || file.Doc != nil
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, has := range docs {
		if !has {
			t.Errorf("package %s has no doc comment", dir)
		}
	}
}

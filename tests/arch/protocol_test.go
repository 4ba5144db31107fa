package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cocache/cocache/lua"
)

// Every invariant of PROTOCOL.md names tests that exist, and every script keeps
// invariants that exist.
func TestInvariantsAreTested(t *testing.T) {
	page, err := os.ReadFile("../../runtime/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## Invariants")
	section, _, _ = strings.Cut(section, "\n## ")
	known := map[string]bool{}
	tests := runtimeTests(t)
	for _, item := range strings.Split(section, "\n- **")[1:] {
		number, _, _ := strings.Cut(item, " ")
		known[number] = true
		named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(item, -1)
		if len(named) == 0 {
			t.Errorf("%s names no test", number)
		}
		for _, name := range named {
			if !tests[name[1]] {
				t.Errorf("%s names %s, which does not exist", number, name[1])
			}
		}
	}
	if len(known) < 12 {
		t.Errorf("found only %d invariants", len(known))
	}
	for _, script := range []string{lua.Read, lua.Fill, lua.Release, lua.Reclaim, lua.Put, lua.Invalidate} {
		header, err := lua.ParseHeader(script)
		if err != nil {
			t.Error(err)
		}
		for _, number := range header.Keeps {
			if !known[number] {
				t.Errorf("%s keeps %s, which is no invariant", header.Verb, number)
			}
		}
	}
}

// runtimeTests are the names of the tests below runtime/.
func runtimeTests(t *testing.T) map[string]bool {
	names := map[string]bool{}
	err := filepath.WalkDir("../../runtime", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
				names[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

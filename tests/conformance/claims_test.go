package conformance

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// promises are counted by group.
var promises = map[string]int{"A": 47, "B": 19, "C": 18, "D": 34, "E": 21, "F": 27, "G": 20, "H": 29, "I": 18, "J": 42, "K": 40}

// row is one promise of CLAIMS.md.
type row struct{ id, says, checked string }

var (
	rowLine  = regexp.MustCompile(`^\| ([A-K]\d+) \| (.+) \| (.+) \|$`)
	testName = regexp.MustCompile("`(Test\\w+)`")
	script   = regexp.MustCompile("`([\\w-]+\\.txtar)`")
	sentence = regexp.MustCompile(`([A-Z]\w*\.md): "([^"]+)"`)
	scenario = regexp.MustCompile(`^\| (BC-\d+(?: \([a-c]\))?) \| .+ \| (.+) \|$`)
	pending  = regexp.MustCompile(`^pending: (types|cluster)$`)
)

// TestEveryPromiseIsChecked: CLAIMS.md has every id once, and what it names
// exists: a claim of this package's tables, a test, a script of tests/script, or a
// sentence of the documentation.
func TestEveryPromiseIsChecked(t *testing.T) {
	rows, tests, claimed := readRows(t), testNames(t), claimedIDs()
	how := map[string]map[string]int{} // by group and way
	for _, r := range rows {
		ways, fault := judge(r, tests, claimed)
		if fault != "" {
			t.Errorf("CLAIMS.md: %s: %s", r.id, fault)
		}
		group := r.id[:1]
		if how[group] == nil {
			how[group] = map[string]int{}
		}
		for way := range ways {
			how[group][way]++
		}
		delete(claimed, r.id)
	}
	for id := range claimed {
		t.Errorf("claim %s is in no row of CLAIMS.md", id)
	}
	for _, group := range slices.Sorted(maps.Keys(promises)) {
		for n := 1; n <= promises[group]; n++ {
			if !slices.ContainsFunc(rows, func(r row) bool { return r.id == fmt.Sprint(group, n) }) {
				t.Errorf("CLAIMS.md has no row for %s%d", group, n)
			}
		}
		t.Logf("%s: %d promises: %d by claims here, %d by other tests, %d by documentation, %d pending", group, promises[group],
			how[group]["claim"], how[group]["test"], how[group]["document"], how[group]["pending"])
	}
}

// TestEveryScenarioIsStaged: what CLAIMS.md names for a scenario exists.
func TestEveryScenarioIsStaged(t *testing.T) {
	text, err := os.ReadFile("CLAIMS.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, staged := testNames(t), 0
	for line := range strings.Lines(string(text)) {
		m := scenario.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		staged++
		if _, fault := judge(row{id: m[1], checked: m[2]}, tests, nil); fault != "" {
			t.Errorf("CLAIMS.md: %s: %s", m[1], fault)
		}
	}
	if staged < 17 {
		t.Errorf("%d scenarios", staged)
	}
	t.Logf("%d scenarios", staged)
}

// judge answers in which ways a promise is checked, and what is wrong with them.
func judge(r row, tests, claimed map[string]bool) (ways map[string]bool, fault string) {
	ways = map[string]bool{}
	if pending.MatchString(r.checked) {
		ways["pending"] = true
		return ways, ""
	}
	if strings.Contains(r.checked, "claim") {
		ways["claim"] = true
		if !claimed[r.id] {
			return ways, "no claim has this id"
		}
	} else if claimed[r.id] {
		return ways, "a claim has this id: say so"
	}
	for _, m := range testName.FindAllStringSubmatch(r.checked, -1) {
		ways["test"] = true
		if !tests[m[1]] {
			return ways, "there is no test " + m[1]
		}
	}
	for _, m := range script.FindAllStringSubmatch(r.checked, -1) {
		ways["test"] = true
		if _, err := os.Stat(filepath.Join("../script/testdata", m[1])); err != nil {
			return ways, "there is no script " + m[1]
		}
	}
	for _, m := range sentence.FindAllStringSubmatch(r.checked, -1) {
		ways["document"] = true
		if !contains(m[1], m[2]) {
			return ways, fmt.Sprintf("%s does not say %q", m[1], m[2])
		}
	}
	if len(ways) == 0 {
		return ways, fmt.Sprintf("%q names nothing that checks it", r.checked)
	}
	return ways, ""
}

// readRows reads CLAIMS.md; every id may be there once.
func readRows(t *testing.T) []row {
	t.Helper()
	text, err := os.ReadFile("CLAIMS.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		m := rowLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if seen[m[1]] {
			t.Errorf("CLAIMS.md: %s is there twice", m[1])
		}
		seen[m[1]] = true
		rows = append(rows, row{m[1], m[2], m[3]})
	}
	return rows
}

// claimedIDs are the ids of this package's claims.
func claimedIDs() map[string]bool {
	ids := map[string]bool{}
	for _, group := range groups {
		for _, c := range group {
			for id := range strings.FieldsSeq(c.ids) {
				ids[id] = true
			}
		}
	}
	return ids
}

// testNames are the tests of the whole module.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == ".git" {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
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

// contains reports whether one of our documents of that name says the sentence,
// however its lines are broken.
func contains(document, text string) bool {
	for _, dir := range []string{"../..", "../../runtime", "."} {
		content, err := os.ReadFile(filepath.Join(dir, document))
		if err == nil && strings.Contains(strings.Join(strings.Fields(string(content)), " "), text) {
			return true
		}
	}
	return false
}

package lua

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var scripts = map[string]string{
	"read": Read, "fill": Fill, "release": Release, "reclaim": Reclaim, "put": Put, "invalidate": Invalidate, "probe": Probe,
}

func TestEveryFileIsEmbeddedUnderItsVerb(t *testing.T) {
	files, err := filepath.Glob("*.lua")
	if err != nil {
		t.Fatal(err)
	}
	var verbs []string
	for _, file := range files {
		verb := strings.TrimSuffix(file, ".lua")
		verbs = append(verbs, verb)
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if scripts[verb] != string(source) {
			t.Errorf("%s is not embedded byte for byte", file)
		}
	}
	if want := slices.Sorted(maps.Keys(scripts)); !slices.Equal(verbs, want) {
		t.Errorf("files for %q, scripts for %q", verbs, want)
	}
}

func TestEveryHeaderStatesItsContract(t *testing.T) {
	invariant := regexp.MustCompile(`^I[1-9][0-9]?$`)
	for verb, source := range scripts {
		h, err := ParseHeader(source)
		if err != nil {
			t.Errorf("%s: %v", verb, err)
			continue
		}
		if h.Verb != verb {
			t.Errorf("%s: the header is of %q", verb, h.Verb)
		}
		for tag, parts := range h.Replies {
			if len(parts) == 0 || parts[0] != "now" {
				t.Errorf("%s: reply %q does not tell the clock first: %q", verb, tag, parts)
			}
		}
		for _, k := range h.Keeps {
			if !invariant.MatchString(k) {
				t.Errorf("%s: keeps %q, which is no invariant", verb, k)
			}
		}
	}
}

func TestEveryReplyOfTheBodyStandsInTheHeaderAndBack(t *testing.T) {
	reply := regexp.MustCompile(`return \{'([a-z-]+)'`)
	for verb, source := range scripts {
		h, err := ParseHeader(source)
		if err != nil {
			t.Fatal(err)
		}
		sent := map[string]bool{}
		for _, m := range reply.FindAllStringSubmatch(source, -1) {
			sent[m[1]] = true
		}
		if got, want := slices.Sorted(maps.Keys(sent)), slices.Sorted(maps.Keys(h.Replies)); !slices.Equal(got, want) {
			t.Errorf("%s: the body replies %q, the header says %q", verb, got, want)
		}
	}
}

func TestScriptsUseWhatEveryServerHas(t *testing.T) {
	for verb, source := range scripts {
		if strings.HasPrefix(source, "#!") {
			t.Errorf("%s begins with a shebang line", verb)
		}
		for _, banned := range []string{`\bcjson\b`, `\bstruct\b`, `\bbit\b`, `\bcmsgpack\b`, `\bserver\.`, `redis\.setresp`} {
			if m := regexp.MustCompile(banned).FindString(source); m != "" {
				t.Errorf("%s uses %s", verb, m)
			}
		}
	}
}

const good = `-- verb: purpose
-- that goes on
--
-- KEYS
--   1 entry
-- ARGV
--   1 token   24 bytes
--   2 ttl     ms
-- Replies
--   stored now
--   held now left   a comment
-- Keeps: I1 I12
local x = 1
`

func TestParseHeader(t *testing.T) {
	want := Header{Verb: "verb", Keys: []string{"entry"}, Args: []string{"token", "ttl"},
		Replies: map[string][]string{"stored": {"now"}, "held": {"now", "left"}}, Keeps: []string{"I1", "I12"}}
	if got, err := ParseHeader(good); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	variadic, err := ParseHeader(strings.Replace(good, "1 entry", "* entry", 1))
	if err != nil || !variadic.Variadic || !slices.Equal(variadic.Keys, []string{"entry"}) {
		t.Errorf("variadic: got %+v, %v", variadic, err)
	}
}

func TestParseHeaderRefuses(t *testing.T) {
	change := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("no %q in the good header", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, header := range map[string]string{
		"nothing":               ``,
		"no comment":            "local x = 1\n",
		"no verb":               change("-- verb: purpose", "-- purpose"),
		"an empty verb":         change("-- verb:", "-- :"),
		"no KEYS":               change("-- KEYS\n--   1 entry\n", ""),
		"KEYS of nothing":       change("--   1 entry\n", ""),
		"no ARGV":               change("-- ARGV\n--   1 token   24 bytes\n--   2 ttl     ms\n", ""),
		"no Replies":            change("-- Replies\n--   stored now\n--   held now left   a comment\n", ""),
		"no Keeps":              change("-- Keeps: I1 I12\n", ""),
		"Keeps of nothing":      change("-- Keeps: I1 I12\n", "-- Keeps:\n"),
		"a gap in the comment":  change("-- ARGV", "\n-- ARGV"),
		"numbers out of order":  change("--   2 ttl", "--   3 ttl"),
		"a number twice":        change("--   2 ttl", "--   1 ttl"),
		"a number that is none": change("--   2 ttl", "--   x ttl"),
		"text in a section":     change("--   2 ttl     ms", "-- and the ttl"),
		"an argument unnamed":   change("--   2 ttl     ms", "--   2"),
		"an empty item":         change("--   2 ttl     ms", "--    "),
		"an empty reply":        change("--   stored now", "--    "),
		"a section twice":       change("-- Replies", "-- KEYS\n--   1 entry\n-- Replies"),
		"a reply twice":         change("--   stored now", "--   held now"),
		"two variadic keys":     change("--   1 entry", "--   * entry\n--   * other"),
		"a variadic argument":   change("--   2 ttl", "--   * ttl"),
		"text after Keeps":      change("-- Keeps: I1 I12", "-- Keeps: I1 I12\n-- more"),
	} {
		t.Run(name, func(t *testing.T) {
			if h, err := ParseHeader(header); err == nil {
				t.Errorf("accepted as %+v", h)
			}
		})
	}
}

package document

import (
	"strings"
	"testing"
)

func parsed(t *testing.T, text string) *Node {
	t.Helper()
	fs := NewFaults("f.yaml", text)
	n := Parse(text, fs)
	if err := fs.Err(); err != nil || n == nil {
		t.Fatalf("%q: %v", text, err)
	}
	return n
}

// TestPositions: every key stands where its node says, whatever comes before
// it in the file.
func TestPositions(t *testing.T) {
	texts := map[string]string{
		"block":           "k1:\n  k2: x\n  k3:\n    k4: y\nk5: z\n",
		"flow":            "k1: { k2: x, k3: [a, b], 'k4': {k5: y},\n  k6: z }\nk7: w\n",
		"comments":        "# one\nk1: x # two\n\n# three\nk2:\n  # four\n  k3: y\n# five\nk4: z\n",
		"literal":         "k1: |\n  a\n\n   b\n\nk2: >-\n  c\n  d\nk3: x\n",
		"literal at end":  "k1:\n  k2: |+\n    a\n\n\nk3: x\n",
		"long plain":      "k1: a\n  b\n  c\nk2: x\n",
		"windows":         "k1: x\r\nk2:\r\n  k3: y\r\n\r\nk4: z\r\n",
		"beyond ASCII":    "k1: äöü\nk2: { k3: \"日本語\", k4: '🙂' , k5: x }\n",
		"quotes":          "\"k1\": 'it''s'\n'k2': \"a\\n\\\"b\"\nk3: { \"k4\": '', k5: x }\n",
		"long quotes":     "k1: \"a\n  b\n\n  c\"\nk2: 'a\n  b'\nk3: { k4: \"x\n  y\", k5: z }\n",
		"document marker": "---\nk1: x\nk2: y\n",
		"list":            "k1:\n- k2: x\n  k3: y\n- k4: z\nk5:\n  - - k6: w\n",
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			lines := strings.Split(text, "\n")
			count := 0
			walk(parsed(t, text), func(e Entry) {
				count++
				at := e.Value.Key
				rest := string([]rune(lines[at.Line-1])[at.Column-1:])
				if !strings.HasPrefix(strings.TrimLeft(rest, `"'`), e.Name) {
					t.Errorf("%s is not at %v, where stands %q", e.Name, at, rest)
				}
			})
			if want := strings.Count(text, "k"); count != want {
				t.Errorf("%d keys, want %d", count, want)
			}
		})
	}
}

func walk(n *Node, visit func(Entry)) {
	for _, e := range n.Entries {
		visit(e)
		walk(e.Value, visit)
	}
	for _, item := range n.Items {
		walk(item, visit)
	}
}

func TestScalars(t *testing.T) {
	for written, want := range map[string]string{
		"off": "off", "0123": "0123", "0x1F": "0x1F", "1_000": "1_000", "1e3": "1e3", ".inf": ".inf", "+1": "+1",
		"|\n  a\n  \tb\n    c\n": "a\n\tb\n  c\n", ">\n  a\n  b\n": "a b\n",
		"'null'": "null", `"a\tb"`: "a\tb", "a b": "a b", "10%": "10%", "a:b": "a:b", "${A:-b}": "${A:-b}",
	} {
		n := parsed(t, "k: "+written+"\n").Get("k")
		if n.Kind != Scalar || n.Text != want {
			t.Errorf("%s is %v %q, want %q", written, n.Kind, n.Text, want)
		}
	}
	for _, written := range []string{"", "~", "null"} {
		if n := parsed(t, "k: "+written+"\n").Get("k"); n.Kind != Null {
			t.Errorf("%q is %v %q, want nothing", written, n.Kind, n.Text)
		}
	}
}

func TestMerge(t *testing.T) {
	n := parsed(t, "a: { b: 1, l: [x] }\nn:\ns: text\n")
	d := parsed(t, "a: { b: 2, c: 3, l: [y, z] }\nn: { m: 1 }\ns: { m: 1 }\nd: { e: 4 }\n")
	m := n.Merge(d)
	for path, want := range map[string]string{"a.b": "1", "a.c": "3", "d.e": "4", "s": "text"} {
		if got := m.Get(strings.Split(path, ".")...); got == nil || got.Text != want {
			t.Errorf("%s is %+v, want %q", path, got, want)
		}
	}
	if got := m.Get("a", "l"); len(got.Items) != 1 {
		t.Errorf("lists were mixed: %+v", got)
	}
	if m.Get("n").Kind != Null || m.Get("n", "m") != nil {
		t.Error("a field without value took one")
	}
	if n.Get("a", "c") != nil || d.Get("a", "b").Text != "2" {
		t.Error("merging changed what was merged")
	}
	if w := m.Without("a", "s"); w.Get("a") != nil || w.Get("d") == nil || m.Get("a") == nil {
		t.Errorf("without: %+v", w)
	}
}

func TestMask(t *testing.T) {
	for line, want := range map[string]string{
		"password: hunter2":                   "password: (secret)",
		"  Password : 'hunter2'  # old":       "  Password : (secret)",
		`{ user: x, "password": "h", db: 1 }`: `{ user: x, "password": (secret)`,
		"api-secret: hunter2":                 "api-secret: (secret)",
		"passwrod: hunter2":                   "passwrod: (secret)",
		"psasword: hunter2":                   "psasword: (secret)",
		"password:":                           "password:",
		"password: ${REDIS}":                  "password: ${REDIS}",
		`password: "${file:/run/x}" # there`:  `password: "${file:/run/x}" # there`,
		"password: ${REDIS:-hunter2}":         "password: (secret)",
		"password: ${REDIS}hunter2":           "password: (secret)",
		"username: someone":                   "username: someone",
		"key-prefix: 'cocache:'":              "key-prefix: 'cocache:'",
	} {
		if got := mask(line); got != want {
			t.Errorf("mask(%q) = %q, want %q", line, got, want)
		}
	}
}

func TestClosest(t *testing.T) {
	for wrong, want := range map[string]string{
		"max_age": "max-age", "MaxAge": "max-age", "mx": "", "enable": "enabled", "amx-age": "max-age", "": "",
		strings.Repeat("x", 1000): "",
	} {
		if got := Closest(wrong, []string{"enabled", "max-age", "max-bytes"}); got != want {
			t.Errorf("Closest(%q) = %q, want %q", wrong, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"ttl", "ttl", 0}, {"tlt", "ttl", 1}, {"ttll", "ttl", 1}, {"abc", "", 3}, {"äb", "ab", 1}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestExcerptCannotSteer: a file's control characters do not reach a terminal.
func TestExcerptCannotSteer(t *testing.T) {
	text := "\"a\\e[31m\": { x: 1, x: 2 }\n# \u202e\u009b\nb: *c\n"
	fs := NewFaults("f.yaml", text)
	Parse(text, fs)
	got := fs.Err().Error()
	if len(fs.List()) != 2 || strings.ContainsAny(got, "\x1b\u202e\u009b") {
		t.Errorf("%q", got)
	}
}

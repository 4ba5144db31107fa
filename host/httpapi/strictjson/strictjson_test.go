package strictjson

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	nested := func(n int) string {
		text := ""
		for range n {
			text += "["
		}
		for range n {
			text += "]"
		}
		return text
	}
	for text, ok := range map[string]bool{
		`{"a":"\ud83d\ude00"}`: true, `"\\ud800"`: true, `"\\\ud83d\ude00"`: true, `"é\u0000\""`: true, `"\uD83D\uDE00x"`: true,
		nested(32): true, `"[[[["`: true, `"` + nested(40) + `"`: true,
		`"\ud800"`: false, `"\ud83d\ud83d\ude00"`: false, `"\ude00\ud83d"`: false, `"\ud800x"`: false, `"\\\ud800"`: false, `{"\uDFFF":1}`: false,
		"\"\xff\"": false, "\"\xed\xa0\x80\"": false, nested(33): false, `{} {}`: false, `{}x`: false, ``: false, `{"a":1,}`: false, "\ufeff{}": false,
		`[1 2]`: false, `{"a" 1}`: false,
	} {
		if _, err := Read([]byte(text)); (err == nil) != ok {
			t.Errorf("%q: got %v, want ok %v", text, err, ok)
		}
	}
}

func TestRawKeepsBytes(t *testing.T) {
	const value = "{ \"n\":1.10 ,\t\"k\":1,\"k\":2,\"h\":\"<\\u0041\" }"
	d, err := Read([]byte(`{"a":  ` + value + "\n, \"b\":[ true ]}"))
	if err != nil {
		t.Fatal(err)
	}
	var raw string
	var b bool
	err = d.Object("it", Members{
		"a": func() error { return d.Raw(&raw) },
		"b": func() error { return d.Array("b", func() error { return d.Bool("b", &b) }) },
	}, "a", "b")
	if err != nil || raw != value || !b {
		t.Errorf("got %q, %v, %v", raw, b, err)
	}
}

// FuzzRead: what is accepted decodes to what it says: encoding/json had nothing
// to replace in it.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{"a":"\ud83d\ude00"}`, `"\ud800"`, "\"\xff\"", `[[1],{"a":null}]`, `"\\ud800"`, `"\ufffd"`, `{} `, `"\ud800\`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := Read(text); err != nil {
			return
		}
		var whole any
		if err := json.Unmarshal(text, &whole); err != nil && !strings.Contains(err.Error(), "cannot unmarshal number") {
			t.Fatalf("%q is accepted but cannot be read: %v", text, err)
		}
		said := strings.Count(string(text), "\ufffd") + strings.Count(strings.ToLower(string(text)), `\ufffd`)
		if again, _ := json.Marshal(whole); strings.Count(string(again), "\ufffd") > said {
			t.Fatalf("%q: something was replaced: %s", text, again)
		}
	})
}

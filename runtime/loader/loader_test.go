package loader

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

var cleaned = map[string]struct{ in, want string }{
	"nothing":             {"", ""},
	"plain":               {"no such user", "no such user"},
	"lines":               {"a\nb\r\nc", "a b  c"},
	"blanks at the ends":  {" \t\n text \n", "text"},
	"control characters":  {"a\x00b\x1b[31mc\x7fd\u0085e", "a b [31mc d e"},
	"line separators":     {"a\u2028b\u2029c", "a b c"},
	"bidi and zero width": {"a\u202Eb\u200Bc\uFEFFd", "a b c d"},
	"invalid UTF-8":       {"a\xffb\xc3", "a\uFFFDb\uFFFD"},
	"a run of it":         {"a\xff\xfe\xfdb", "a\uFFFDb"},
	"other scripts":       {"größer 日本 🙂", "größer 日本 🙂"},
	"only controls":       {"\x00\x01\n", ""},
	"as long as allowed":  {strings.Repeat("x", MaxMessage), strings.Repeat("x", MaxMessage)},
	"too long":            {strings.Repeat("x", MaxMessage+1), strings.Repeat("x", MaxMessage)},
	"blank at the cut":    {strings.Repeat("x", MaxMessage-1) + "  y", strings.Repeat("x", MaxMessage-1)},
	"far too long":        {strings.Repeat("y", 1<<20), strings.Repeat("y", MaxMessage)},
	"a character cut":     {strings.Repeat("x", MaxMessage-1) + "é", strings.Repeat("x", MaxMessage-1)},
	"four bytes cut":      {strings.Repeat("x", MaxMessage-3) + "🙂", strings.Repeat("x", MaxMessage-3)},
	"grows when replaced": {strings.Repeat("x\xff", MaxMessage/2), strings.Repeat("x\uFFFD", MaxMessage/4)},
}

func TestClean(t *testing.T) {
	for name, test := range cleaned {
		if got := Clean(test.in); got != test.want {
			t.Errorf("%s: got %.60q (%d bytes), want %.60q (%d)", name, got, len(got), test.want, len(test.want))
		}
	}
}

// safe says what Clean promises of any text.
func safe(t *testing.T, in string) {
	t.Helper()
	got := Clean(in)
	if len(got) > MaxMessage || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
		t.Errorf("Clean(%.60q) = %.60q, %d bytes", in, got, len(got))
	}
	if again := Clean(got); again != got {
		t.Errorf("Clean twice of %.60q: %q after %q", in, again[max(0, len(again)-20):], got[max(0, len(got)-20):])
	}
}

func TestWhatIsCleanStaysSo(t *testing.T) {
	for _, test := range cleaned {
		safe(t, test.in)
	}
	for _, unit := range []string{"\xff", "x\xff", "é", "日", "🙂", "\n", " ", "x ", "\xff ", " \xff", "xy\xff ", "\u2028"} {
		for lead := range 8 {
			safe(t, strings.Repeat("a", lead)+strings.Repeat(unit, MaxMessage))
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, test := range cleaned {
		f.Add(test.in)
	}
	f.Fuzz(func(t *testing.T, in string) { safe(t, in) })
}

func TestErrorsReadAsOneLine(t *testing.T) {
	for want, err := range map[string]*Error{
		"loader failed":                       {},
		"loader failed: no such table":        Failf("no such\n%s", "table"),
		"loader limit: loader.limits.x = 1":   {Kind: Limited, Limit: "loader.limits.x", Value: "1"},
		"loader timeout: load-timeout = 30s":  {Kind: TimedOut, Limit: "load-timeout", Value: "30s"},
		"loader retry: busy":                  {Kind: Retry, Message: "busy", Code: "BUSY"},
		"loader bad key: not UTF-8":           {Kind: BadKey, Message: "not UTF-8"},
		"loader limit: memory = 1MiB: at top": {Kind: Limited, Limit: "memory", Value: "1MiB", Message: "at top"},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAFunctionIsALoader(t *testing.T) {
	fail := errors.New("down")
	var l Loader = Func(func(_ context.Context, req Request) (Result, error) {
		return Result{Value: []byte(req.Key)}, fail
	})
	if r, err := l.Load(context.Background(), Request{Key: "k"}); string(r.Value) != "k" || err != fail {
		t.Errorf("%+v, %v", r, err)
	}
}

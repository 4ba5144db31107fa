package codec

import (
	"strings"
	"testing"

	"github.com/cocache/cocache/runtime/policy"
)

func TestNumbersAndTypesStayWhatRedisHolds(t *testing.T) {
	for c, want := range map[policy.Codec]struct {
		id          byte
		contentType string
	}{
		policy.Raw:     {0, "application/octet-stream"},
		policy.JSON:    {1, "application/json"},
		policy.String:  {2, "text/plain; charset=utf-8"},
		policy.Msgpack: {3, "application/vnd.msgpack"},
	} {
		if ID(c) != want.id || ContentType(c) != want.contentType {
			t.Errorf("%s: %d, %q; want %+v", c, ID(c), ContentType(c), want)
		}
	}
}

func TestCheck(t *testing.T) {
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for c, values := range map[policy.Codec]struct{ good, bad []string }{
		policy.Raw:    {good: []string{"", "\x00\xff", "text"}},
		policy.String: {good: []string{"", "text", "é\x00", "\uFFFD"}, bad: []string{"\xff", "a\xc3", "\xed\xa0\x80"}},
		policy.JSON: {
			good: []string{`null`, `0`, `""`, `{}`, ` [1, 2] `, `{"a":1,"a":2}`, `1e999`, `123456789012345678901234567890`, `"\ud800"`, deep},
			bad:  []string{``, ` `, `{`, `{} {}`, `nul`, `'a'`, `[1,]`, `01`, `NaN`, "\xef\xbb\xbf{}", "\"\xff\"", "\"\x01\"", `{a:1}`, `// no` + "\n1"},
		},
		policy.Msgpack: {
			good: []string{"\xc0", "\x00", "\xa0", "\x80", "\x92\x01\x02", "\x81\xa1k\xa1v", "\xc4\x01\xff", "\xd4\x01\x00",
				"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "\xdd\x00\x00\x00\x00"},
			bad: []string{"", "\xc1", "\x92\x01", "\x01\x02", "\xa5hell", "\x81\xa1k", "\xdd\xff\xff\xff\xff", "\xc6\xff\xff\xff\xff", "\xd4\x01", "\xcb\x00"},
		},
	} {
		for _, value := range values.good {
			if err := Check(c, []byte(value)); err != nil {
				t.Errorf("%s refuses %.40q: %v", c, value, err)
			}
		}
		for _, value := range values.bad {
			if err := Check(c, []byte(value)); err == nil {
				t.Errorf("%s takes %.40q", c, value)
			} else if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%s on %.40q: the error is more than a line: %q", c, value, err)
			}
		}
	}
}

func TestAFaultyJSONTextIsToldWhere(t *testing.T) {
	err := Check(policy.JSON, []byte(`{"a": tru}`))
	if err == nil || !strings.Contains(err.Error(), "at byte 10") {
		t.Errorf("%v", err)
	}
}

func TestCheckContentType(t *testing.T) {
	for c, types := range map[policy.Codec]struct{ good, bad []string }{
		policy.Raw: {
			good: []string{"", "image/png", "anything printable", strings.Repeat("x", 127), `text/html; charset="latin-1"`},
			bad:  []string{strings.Repeat("x", 128), "a\nb", "a\x00", "a\x7f", "é", "\t"},
		},
		policy.JSON: {
			good: []string{"", "application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "application/json;charset=UTF-8", "application/json; v=1"},
			bad:  []string{"text/json", "application/json; charset=latin-1", "application", "application/json; charset", " ", "*/*"},
		},
		policy.String:  {good: []string{"text/plain", "text/plain; charset=utf-8"}, bad: []string{"text/html", "text/plain; charset=us-ascii"}},
		policy.Msgpack: {good: []string{"application/vnd.msgpack"}, bad: []string{"application/msgpack", "application/x-msgpack"}},
	} {
		for _, given := range types.good {
			if err := CheckContentType(c, given); err != nil {
				t.Errorf("%s refuses %.40q: %v", c, given, err)
			}
		}
		for _, given := range types.bad {
			if err := CheckContentType(c, given); err == nil {
				t.Errorf("%s takes %.40q", c, given)
			}
		}
	}
}

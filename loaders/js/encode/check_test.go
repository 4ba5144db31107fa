package encode_test

import (
	"strings"
	"testing"

	"github.com/dop251/goja"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cocache/cocache/loaders/js/encode"
)

func TestCheckMsgpack(t *testing.T) {
	good := []string{
		"\xc0", "\x00", "\xff", "\xe0", "\xc4\x00", "\xc4\x01x", "\xc5\x00\x01x", "\xc6\x00\x00\x00\x01x", "\xa1x", "\xd9\x01x", "\xda\x00\x01x", "\xdb\x00\x00\x00\x01x",
		"\x90", "\x80", "\x81\xa0\xc0", "\xdc\x00\x01\xc0", "\xdd\x00\x00\x00\x01\xc0", "\xde\x00\x01\xc0\xc0", "\xdf\x00\x00\x00\x01\xc0\xc0", "\xcaabcd", "\xcbabcdefgh", "\xcca",
		"\xcdab", "\xceabcd", "\xcfabcdefgh", "\xd0a", "\xd1ab", "\xd2abcd", "\xd3abcdefgh", "\xd4ta", "\xd5tab", "\xd6tabcd", "\xd7tabcdefgh", "\xd8t0123456789abcdef",
		"\xc7\x00t", "\xc8\x00\x01tx", "\xc9\x00\x00\x00\x01tx", strings.Repeat("\x91", 1<<20) + "\xc0",
	}
	for _, b := range good {
		if err := encode.Check([]byte(b), "msgpack"); err != nil {
			t.Errorf("%.20x: %v", b, err)
		}
		if err := encode.Check([]byte(b+"\xc0"), "msgpack"); err == nil {
			t.Errorf("%.20x and another value are taken", b)
		}
		if err := encode.Check([]byte(b[:len(b)-1]), "msgpack"); err == nil {
			t.Errorf("%.20x cut short is taken", b)
		}
	}
	for _, b := range []string{"\xc1", "\xdf\xff\xff\xff\xff", "\xdd\xff\xff\xff\xff\xc0", "\xc6\xff\xff\xff\xff", "\x92\xc0", "\x91\xdd\xff\xff\xff\xff"} {
		if err := encode.Check([]byte(b), "msgpack"); err == nil {
			t.Errorf("%x is taken", b)
		}
	}
}

// FuzzMsgpack: what Check takes can be decoded, or is refused in words; and
// what was decoded can be encoded unless it has no such form.
func FuzzMsgpack(f *testing.F) {
	for _, v := range []any{nil, 1, "x", []any{1, map[string]any{"a": []byte{1}}}, 1.5, uint64(1 << 63), -5} {
		b, _ := msgpack.Marshal(v)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		rt := goja.New()
		vs := encode.New(rt, 1<<20, nil)
		checked := encode.Check(b, "msgpack")
		v, err := vs.Decode(b, "msgpack")
		if err == nil && checked != nil {
			t.Fatalf("decoded what Check refuses: %v", checked)
		}
		if err != nil {
			return
		}
		again, err := vs.Encode(v, "msgpack")
		if err == nil && encode.Check(again, "msgpack") != nil {
			t.Fatalf("%x was encoded as %x", b, again)
		}
	})
}

package web

import (
	"strings"
	"unicode/utf8"

	"github.com/dop251/goja"
)

// replaceInvalid puts one U+FFFD for each longest beginning of a character, as
// the encoding standard says; Go's own conversion puts one per byte.
func replaceInvalid(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		if r, size := utf8.DecodeRune(b); r != utf8.RuneError || size > 1 {
			out.Write(b[:size])
			b = b[size:]
			continue
		}
		out.WriteRune(utf8.RuneError)
		b = b[beginning(b):]
	}
	return out.String()
}

// beginning is the number of bytes, at least 1, that could have begun a
// character.
func beginning(b []byte) int {
	low, high, want := byte(0x80), byte(0xbf), 0
	switch c := b[0]; {
	case c >= 0xc2 && c <= 0xdf:
		want = 2
	case c >= 0xe0 && c <= 0xef:
		want = 3
		if c == 0xe0 {
			low = 0xa0
		} else if c == 0xed {
			high = 0x9f
		}
	case c >= 0xf0 && c <= 0xf4:
		want = 4
		if c == 0xf0 {
			low = 0x90
		} else if c == 0xf4 {
			high = 0x8f
		}
	}
	n := 1
	for n < want && n < len(b) && b[n] >= low && b[n] <= high {
		low, high = 0x80, 0xbf
		n++
	}
	return n
}

// parseForm splits a query into the pairs that it stands for.
func (n natives) parseForm(c goja.FunctionCall) goja.Value {
	var pairs []any
	for part := range strings.SplitSeq(c.Argument(0).String(), "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		pairs = append(pairs, n.rt.NewArray(unescapeForm(name), unescapeForm(value)))
	}
	return n.rt.NewArray(pairs...)
}

func unescapeForm(s string) string {
	return replaceInvalid(unescape(strings.ReplaceAll(s, "+", " ")))
}

// unescape decodes %XX and leaves what is no such thing.
func unescape(s string) []byte {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && hexValue(s[i+1]) >= 0 && hexValue(s[i+2]) >= 0 {
			out = append(out, byte(hexValue(s[i+1])<<4|hexValue(s[i+2])))
			i += 2
			continue
		}
		out = append(out, s[i])
	}
	return out
}

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// formatForm is the query that stands for pairs.
func (n natives) formatForm(c goja.FunctionCall) goja.Value {
	var b strings.Builder
	n.rt.ForOf(c.Argument(0), func(pair goja.Value) bool {
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		o := pair.ToObject(n.rt)
		b.WriteString(escapeForm(o.Get("0").String()))
		b.WriteByte('=')
		b.WriteString(escapeForm(o.Get("1").String()))
		return true
	})
	return n.rt.ToValue(b.String())
}

func escapeForm(s string) string {
	return strings.ReplaceAll(escape(s, func(c byte) bool {
		return !alphanumeric(c) && !strings.ContainsRune("*-._ ", rune(c))
	}), " ", "+")
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

const upperHex = "0123456789ABCDEF"

func escape(s string, must func(byte) bool) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= utf8.RuneSelf || must(c) {
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

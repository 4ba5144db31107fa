package encode

import (
	"errors"
	"math/big"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/dop251/goja"
)

// buf is what was written so far. Writes past max are still made, since each
// is bounded and the walk stops at the next step.
type buf struct {
	b   []byte
	max int64
}

func (b *buf) result() []byte { return b.b }
func (b *buf) over() bool     { return b.max > 0 && int64(len(b.b)) > b.max }

type jsonSink struct{ buf }

func (s *jsonSink) null()               { s.b = append(s.b, "null"...) }
func (s *jsonSink) boolean(v bool)      { s.b = strconv.AppendBool(s.b, v) }
func (s *jsonSink) number(v goja.Value) { s.b = append(s.b, v.String()...) }
func (s *jsonSink) text(v string)       { s.b = appendJSONString(s.b, v) }

func (s *jsonSink) bigint(n *big.Int) error {
	s.b = n.Append(s.b, 10)
	return nil
}

func (s *jsonSink) bytes([]byte) error {
	return errors.New("bytes have no JSON; for text that is JSON already use ctx.bytes")
}

func (s *jsonSink) date(_ time.Time, iso string) error {
	s.b = appendJSONString(s.b, iso)
	return nil
}

func (s *jsonSink) begin(array bool, _ int) { s.b = append(s.b, bracket(array)) }
func (s *jsonSink) end(array bool)          { s.b = append(s.b, bracket(array)+2) }

// bracket is the opening one; the closing one is two further in ASCII.
func bracket(array bool) byte {
	if array {
		return '['
	}
	return '{'
}

func (s *jsonSink) element(i int) {
	if i > 0 {
		s.b = append(s.b, ',')
	}
}

func (s *jsonSink) key(i int, name string) {
	s.element(i)
	s.b = append(appendJSONString(s.b, name), ':')
}

const hexDigits = "0123456789abcdef"

// appendJSONString escapes only what JSON requires, so that text stays as the
// script wrote it; encoding/json would change `<`, `>` and `&`.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= utf8.RuneSelf || c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		start = i + 1
	}
	return append(append(b, s[start:]...), '"')
}

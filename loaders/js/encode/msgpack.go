package encode

import (
	"errors"
	"math"
	"math/big"
	"time"

	"github.com/dop251/goja"
	"github.com/vmihailenco/msgpack/v5"
)

// maxSafe is the largest integer below which a number is itself and no
// rounding of another one.
const maxSafe = 1<<53 - 1

type msgpackSink struct {
	buf
	enc *msgpack.Encoder
}

func newMsgpackSink(max int64) *msgpackSink {
	s := &msgpackSink{buf: buf{max: max}}
	s.enc = msgpack.NewEncoder(s)
	s.enc.UseCompactInts(true)
	return s
}

// Write makes the sink its encoder's destination; it cannot fail, which is
// why the encoder's errors are not looked at.
func (s *msgpackSink) Write(p []byte) (int, error) {
	s.b = append(s.b, p...)
	return len(p), nil
}

// WriteByte spares the encoder a buffer of its own.
func (s *msgpackSink) WriteByte(c byte) error {
	s.b = append(s.b, c)
	return nil
}

func (s *msgpackSink) null()          { _ = s.enc.EncodeNil() }
func (s *msgpackSink) boolean(v bool) { _ = s.enc.EncodeBool(v) }
func (s *msgpackSink) text(v string)  { _ = s.enc.EncodeString(v) }

func (s *msgpackSink) number(v goja.Value) {
	f := v.ToFloat()
	if f == math.Trunc(f) && math.Abs(f) <= maxSafe && !(f == 0 && math.Signbit(f)) {
		_ = s.enc.EncodeInt(int64(f))
		return
	}
	_ = s.enc.EncodeFloat64(f)
}

func (s *msgpackSink) bigint(n *big.Int) error {
	switch {
	case n.IsInt64():
		_ = s.enc.EncodeInt(n.Int64())
	case n.IsUint64():
		_ = s.enc.EncodeUint(n.Uint64())
	default:
		return errors.New("a bigint beyond 64 bits")
	}
	return nil
}

func (s *msgpackSink) bytes(b []byte) error {
	_ = s.enc.EncodeBytes(b)
	return nil
}

func (s *msgpackSink) date(t time.Time, _ string) error {
	_ = s.enc.EncodeTime(t)
	return nil
}

func (s *msgpackSink) begin(array bool, n int) {
	if array {
		_ = s.enc.EncodeArrayLen(n)
		return
	}
	_ = s.enc.EncodeMapLen(n)
}

func (s *msgpackSink) element(int)            {}
func (s *msgpackSink) key(_ int, name string) { s.text(name) }
func (s *msgpackSink) end(bool)               {}

// Package frame is the format of one message on an invalidation channel.
//
// Decoding is strict: an unknown version or kind, a count or length that does
// not fit, and a single trailing byte are errors, because a receiver that
// cannot read a message must assume that it names any key (PROTOCOL.md,
// "Invalidation channel"). A frame without keys is legal and changes nothing.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cocache/cocache/runtime/entry"
)

// MaxKeys is how many keys one frame carries at most.
const MaxKeys = 512

// Version of the format. Version 2 is kept for a later "everything changed";
// a receiver of today treats it, like any frame it cannot read, as just that.
const Version = 1

const kindKeys = 0

// headerSize: version, kind, sender, number, count.
const headerSize = 1 + 1 + 16 + 8 + 2

// ErrBad: the message is not a frame of this version.
var ErrBad = errors.New("bad invalidation frame")

// Frame says which keys changed.
type Frame struct {
	Sender entry.NodeID
	Number uint64 // counts the sender's frames in this namespace, from 1
	Keys   []string
}

// Append encodes f behind b. It panics when f holds more than MaxKeys keys:
// callers cut their batches.
func Append(b []byte, f Frame) []byte {
	if len(f.Keys) > MaxKeys {
		panic(fmt.Sprintf("frame of %d keys", len(f.Keys)))
	}
	b = append(b, Version, kindKeys)
	b = append(b, f.Sender[:]...)
	b = binary.BigEndian.AppendUint64(b, f.Number)
	b = binary.BigEndian.AppendUint16(b, uint16(len(f.Keys)))
	for _, key := range f.Keys {
		b = binary.BigEndian.AppendUint32(b, uint32(len(key)))
		b = append(b, key...)
	}
	return b
}

// Decode reads a frame. Its keys share message's memory.
func Decode(message string) (Frame, error) {
	if len(message) < headerSize {
		return Frame{}, fmt.Errorf("%w: %d bytes", ErrBad, len(message))
	}
	if message[0] != Version || message[1] != kindKeys {
		return Frame{}, fmt.Errorf("%w: version %d, kind %d", ErrBad, message[0], message[1])
	}
	var f Frame
	copy(f.Sender[:], message[2:18])
	f.Number = number(message[18:26])
	count := int(number(message[26:28]))
	if count > MaxKeys {
		return Frame{}, fmt.Errorf("%w: %d keys", ErrBad, count)
	}
	rest := message[headerSize:]
	for range count {
		if len(rest) < 4 || number(rest[:4]) > uint64(len(rest)-4) {
			return Frame{}, fmt.Errorf("%w: truncated", ErrBad)
		}
		end := 4 + int(number(rest[:4]))
		f.Keys = append(f.Keys, rest[4:end])
		rest = rest[end:]
	}
	if rest != "" {
		return Frame{}, fmt.Errorf("%w: %d trailing bytes", ErrBad, len(rest))
	}
	return f, nil
}

func number(s string) uint64 {
	var n uint64
	for i := range len(s) {
		n = n<<8 | uint64(s[i])
	}
	return n
}

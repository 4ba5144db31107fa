package encode

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Check says whether bytes that a script hands over are a value of the codec.
// It changes nothing, so that they can be kept byte for byte.
func Check(b []byte, codec string) error {
	switch codec {
	case "json":
		if !utf8.Valid(b) {
			return errors.New("the bytes are not UTF-8, which JSON has to be")
		}
		if !json.Valid(b) {
			return errors.New("the bytes are not one JSON text")
		}
	case "string":
		if !utf8.Valid(b) {
			return errors.New("the bytes are not UTF-8")
		}
	case "msgpack":
		return checkMsgpack(b)
	}
	return nil
}

// checkMsgpack walks one value without recursion: nesting is as deep as the
// bytes are many, and a goroutine's stack cannot be.
func checkMsgpack(b []byte) error {
	for open := uint64(1); open > 0; open-- {
		size, inner, err := msgpackHead(b)
		if err != nil {
			return err
		}
		if size > uint64(len(b)) {
			return errors.New("the msgpack value is cut short")
		}
		b = b[size:]
		// Each value takes a byte at least, which bounds the sum.
		if inner > uint64(len(b)) {
			return errors.New("the msgpack value is cut short")
		}
		if open += inner; open > uint64(len(b))+1 {
			return errors.New("the msgpack value is cut short")
		}
	}
	if len(b) > 0 {
		return fmt.Errorf("%d bytes follow the msgpack value", len(b))
	}
	return nil
}

// sizes of the formats 0xc0 to 0xdf that have a fixed one, head included; 0
// has none, and 0xc1 is never used.
var fixedSize = [32]uint8{
	0xc0 - 0xc0: 1, 0xc2 - 0xc0: 1, 0xc3 - 0xc0: 1, // nil, booleans
	0xca - 0xc0: 5, 0xcb - 0xc0: 9, // floats
	0xcc - 0xc0: 2, 0xcd - 0xc0: 3, 0xce - 0xc0: 5, 0xcf - 0xc0: 9, // unsigned
	0xd0 - 0xc0: 2, 0xd1 - 0xc0: 3, 0xd2 - 0xc0: 5, 0xd3 - 0xc0: 9, // signed
	0xd4 - 0xc0: 3, 0xd5 - 0xc0: 4, 0xd6 - 0xc0: 6, 0xd7 - 0xc0: 10, 0xd8 - 0xc0: 18, // fixext
}

// msgpackHead reads the head of a value: the bytes that it takes itself, and
// the number of values inside it that follow.
func msgpackHead(b []byte) (size, inner uint64, err error) {
	if len(b) == 0 {
		return 0, 0, errors.New("the msgpack value is cut short")
	}
	switch c := b[0]; {
	case c < 0x80 || c >= 0xe0:
		return 1, 0, nil
	case c < 0x90:
		return 1, 2 * uint64(c&15), nil
	case c < 0xa0:
		return 1, uint64(c & 15), nil
	case c < 0xc0:
		return 1 + uint64(c&31), 0, nil
	case fixedSize[c-0xc0] > 0:
		return uint64(fixedSize[c-0xc0]), 0, nil
	default:
		return msgpackCounted(b)
	}
}

// msgpackCounted reads the head of a value that states its length.
func msgpackCounted(b []byte) (size, inner uint64, err error) {
	var width uint64
	switch b[0] {
	case 0xc4, 0xc7, 0xd9:
		width = 1
	case 0xc5, 0xc8, 0xda, 0xdc, 0xde:
		width = 2
	case 0xc6, 0xc9, 0xdb, 0xdd, 0xdf:
		width = 4
	default:
		return 0, 0, fmt.Errorf("the byte 0x%x begins no msgpack value", b[0])
	}
	if uint64(len(b)) < 1+width {
		return 0, 0, errors.New("the msgpack value is cut short")
	}
	var padded [8]byte
	copy(padded[8-width:], b[1:1+width])
	n := binary.BigEndian.Uint64(padded[:])
	switch b[0] {
	case 0xdc, 0xdd:
		return 1 + width, n, nil
	case 0xde, 0xdf:
		return 1 + width, 2 * n, nil
	case 0xc7, 0xc8, 0xc9:
		return 2 + width + n, 0, nil // an extension has a type byte
	}
	return 1 + width + n, 0, nil
}

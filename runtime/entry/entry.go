// Package entry is the format of one entry in L1: the bytes under one Redis
// key, in each state that the protocol knows.
//
// It owns the header's layout (PROTOCOL.md, "Entry format"), which the Lua
// scripts repeat as numbers and golden tests hold in place. Decoding believes
// nothing: bytes that are not ours are ErrForeign, bytes of a later format
// ErrNewer. It does no I/O and reads no clock; every time in a header is the
// Redis server's.
package entry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// State is the letter of an entry's state.
type State byte

const (
	Lease    State = 'L' // someone may fill; holds the token
	Value    State = 'V'
	Negative State = 'M' // a stored "does not exist"
	Stale    State = 'S' // an invalidated value that may still be shown; nobody holds a lease
)

// Format is the version of the layout that this package writes.
const Format = '1'

// Layout: offset and size of each header field. HeaderSize is where the
// content type begins; the payload follows it.
const (
	magicAt      = 0
	formatAt     = 2
	stateAt      = 3
	tokenAt      = 4
	issuedAt     = 28
	untilAt      = 43
	floorAt      = 58
	floorUntilAt = 78
	staleUntilAt = 93
	invalidAt    = 108
	versionAt    = 123
	writeIDAt    = 143
	codecAt      = 167
	typeSizeAt   = 168
	digestSizeAt = 169
	sizeAt       = 170
	HeaderSize   = 174

	timeSize    = 15
	versionSize = 20
)

const magic = "\xff\xcc"

// Never is the Until of what does not expire; as digits it is later than any
// clock.
const Never = 999_999_999_999_999

// MaxContentType bounds a content type, in bytes.
const MaxContentType = 127

var (
	// ErrForeign: the bytes are not an entry.
	ErrForeign = errors.New("not an entry")
	// ErrNewer: the entry has a later format than this program knows.
	ErrNewer = errors.New("entry of a newer format")
)

// Entry is a decoded entry. Its strings share the memory they were decoded
// from.
type Entry struct {
	State    State
	Token    Token // of the lease, or of the refresh under way
	IssuedAt int64 // when Token was issued, ms
	Until    int64 // end of the lease or of the value, ms, or Never
	// StaleUntil and InvalidatedAt, ms, are of the body of a stale entry, or of
	// a lease that keeps one; 0 without.
	StaleUntil, InvalidatedAt int64
	Version                   uint64
	WriteID                   Token
	Body
}

// Body is what a writer or a fill stores.
type Body struct {
	Codec       byte
	ContentType string
	Payload     string
}

// Left is what remains of the entry's life at the server's time now (ms);
// ok is false when the entry does not expire.
func (e Entry) Left(now int64) (left time.Duration, ok bool) {
	if e.Until == Never {
		return 0, false
	}
	return time.Duration(max(e.Until-now, 0)) * time.Millisecond, true
}

// Decode reads an entry.
func Decode(s string) (Entry, error) {
	if len(s) < formatAt+1 || s[magicAt:formatAt] != magic {
		return Entry{}, ErrForeign
	}
	if f := s[formatAt]; f != Format {
		if f > Format {
			return Entry{}, ErrNewer
		}
		return Entry{}, fmt.Errorf("%w: format %q", ErrForeign, f)
	}
	if len(s) < HeaderSize {
		return Entry{}, fmt.Errorf("%w: header cut at %d bytes", ErrForeign, len(s))
	}
	return decodeFields(s)
}

func decodeFields(s string) (Entry, error) {
	e := Entry{State: State(s[stateAt])}
	switch e.State {
	case Lease, Value, Negative, Stale:
	default:
		return Entry{}, fmt.Errorf("%w: state %q", ErrForeign, s[stateAt])
	}
	copy(e.Token[:], s[tokenAt:issuedAt])
	copy(e.WriteID[:], s[writeIDAt:codecAt])
	for _, f := range []struct {
		at, size int
		into     *int64
	}{
		{issuedAt, timeSize, &e.IssuedAt},
		{untilAt, timeSize, &e.Until},
		{staleUntilAt, timeSize, &e.StaleUntil},
		{invalidAt, timeSize, &e.InvalidatedAt},
	} {
		n, ok := digits(s[f.at : f.at+f.size])
		if !ok {
			return Entry{}, fmt.Errorf("%w: no digits at %d", ErrForeign, f.at)
		}
		*f.into = int64(n)
	}
	version, ok := digits(s[versionAt : versionAt+versionSize])
	if !ok {
		return Entry{}, fmt.Errorf("%w: no version", ErrForeign)
	}
	e.Version = version
	return decodeBody(e, s)
}

func decodeBody(e Entry, s string) (Entry, error) {
	typeSize, digestSize := int(s[typeSizeAt]), int(s[digestSizeAt])
	size := int(binary.BigEndian.Uint32([]byte(s[sizeAt:HeaderSize])))
	if typeSize > MaxContentType || digestSize != 0 || len(s) != HeaderSize+typeSize+size {
		return Entry{}, fmt.Errorf("%w: bad sizes", ErrForeign)
	}
	e.Codec = s[codecAt]
	e.ContentType = s[HeaderSize : HeaderSize+typeSize]
	e.Payload = s[HeaderSize+typeSize:]
	return e, nil
}

// digits reads a fixed-width decimal number, refusing all but digits and what
// does not fit 64 bits.
func digits(s string) (uint64, bool) {
	var n uint64
	for i := range len(s) {
		d := uint64(s[i] - '0')
		if d > 9 || n > (1<<64-1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// Tail is the part of a stored value or negative entry that its writer
// decides: the bytes from the version to the end. The script that stores it
// puts the head with the server's times before it.
func Tail(version uint64, writeID Token, b Body) (string, error) {
	if len(b.ContentType) > MaxContentType {
		return "", fmt.Errorf("content type of %d bytes is over %d", len(b.ContentType), MaxContentType)
	}
	if len(b.Payload) > math.MaxUint32 {
		return "", fmt.Errorf("payload of %d bytes is over %d", len(b.Payload), uint32(math.MaxUint32))
	}
	tail := make([]byte, 0, HeaderSize-versionAt+len(b.ContentType)+len(b.Payload))
	tail = fmt.Appendf(tail, "%020d", version)
	tail = append(tail, writeID[:]...)
	tail = append(tail, b.Codec, byte(len(b.ContentType)), 0)
	tail = binary.BigEndian.AppendUint32(tail, uint32(len(b.Payload)))
	tail = append(tail, b.ContentType...)
	tail = append(tail, b.Payload...)
	return string(tail), nil
}

// Encode writes a whole entry, as the scripts do; for tests and tools.
func Encode(e Entry) (string, error) {
	tail, err := Tail(e.Version, e.WriteID, e.Body)
	if err != nil {
		return "", err
	}
	head := make([]byte, 0, versionAt)
	head = append(head, magic...)
	head = append(head, Format, byte(e.State))
	head = append(head, e.Token[:]...)
	head = fmt.Appendf(head, "%015d%015d", e.IssuedAt, e.Until)
	head = fmt.Appendf(head, "%020d%015d%015d%015d", 0, 0, e.StaleUntil, e.InvalidatedAt)
	return string(head) + tail, nil
}

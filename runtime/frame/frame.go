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
	"math"
	"time"

	"github.com/cocache/cocache/runtime/entry"
)

// MaxKeys is how many keys one frame carries at most.
const MaxKeys = 512

// MaxSpans is how many spans one announcement carries at most.
const MaxSpans = 64

// MaxWindow is the longest Window of an announcement.
const MaxWindow = math.MaxUint32 * time.Millisecond

// Version of the format. Version 2 means that anything may have changed; a
// receiver treats every frame that it cannot read as just that.
const (
	Version      = 1
	versionReset = 2
)

const (
	kindKeys         = 0
	kindAnnouncement = 1
)

// Sizes: version, kind, sender, number, count; of an announcement flags, since and
// window, then its spans.
const (
	headerSize       = 1 + 1 + 16 + 8 + 2
	announcementSize = headerSize + 1 + 8 + 4
	spanSize         = 8 + 8
)

const (
	flagSteady  = 1 << 0
	flagGoodbye = 1 << 1
)

// ErrBad: the message is not a frame of this version.
var ErrBad = errors.New("bad invalidation frame")

// Frame says which keys changed, or what its sender has published so far.
type Frame struct {
	Sender entry.NodeID
	// Number counts the sender's frames in this namespace, from 1. An announcement
	// has none of its own: it names the last one that it speaks of, 0 for none.
	Number uint64
	Keys   []string
	// Announcement is nil in a frame of keys.
	Announcement *Announcement
}

// Announcement tells receivers which frames they must have received: every one
// up to Frame.Number that is in no span of Unpublished.
type Announcement struct {
	// Since is the last number as of Window ago: those who never heard of the sender,
	// but have listened for longer, must have received what came after it.
	Since  uint64
	Window time.Duration // whole milliseconds, at most MaxWindow
	// Unpublished are numbers not known to have been published, at most MaxSpans,
	// ascending, with gaps between.
	Unpublished []Span
	// Steady: the sender announces itself at every heartbeat, moved or not.
	Steady bool
	// Goodbye: the sender says nothing any more.
	Goodbye bool
}

// Span is the numbers From to To, both included.
type Span struct{ From, To uint64 }

// Append encodes f behind b. It panics when f holds more than MaxKeys keys or
// MaxSpans spans: callers cut.
func Append(b []byte, f Frame) []byte {
	if f.Announcement != nil {
		return appendAnnouncement(b, f)
	}
	b = appendHeader(b, Version, kindKeys, f, len(f.Keys), MaxKeys)
	for _, key := range f.Keys {
		b = binary.BigEndian.AppendUint32(b, uint32(len(key)))
		b = append(b, key...)
	}
	return b
}

// AppendReset encodes a frame that makes every receiver reset the namespace.
func AppendReset(b []byte, sender entry.NodeID, number uint64) []byte {
	return appendHeader(b, versionReset, kindKeys, Frame{Sender: sender, Number: number}, 0, 0)
}

func appendAnnouncement(b []byte, f Frame) []byte {
	a := f.Announcement
	b = appendHeader(b, Version, kindAnnouncement, f, len(a.Unpublished), MaxSpans)
	var flags byte
	if a.Steady {
		flags |= flagSteady
	}
	if a.Goodbye {
		flags |= flagGoodbye
	}
	b = append(b, flags)
	b = binary.BigEndian.AppendUint64(b, a.Since)
	b = binary.BigEndian.AppendUint32(b, uint32(a.Window.Milliseconds()))
	for _, s := range a.Unpublished {
		b = binary.BigEndian.AppendUint64(b, s.From)
		b = binary.BigEndian.AppendUint64(b, s.To)
	}
	return b
}

func appendHeader(b []byte, version, kind byte, f Frame, count, limit int) []byte {
	if count > limit {
		panic(fmt.Sprintf("frame of %d parts, at most %d", count, limit))
	}
	b = append(b, version, kind)
	b = append(b, f.Sender[:]...)
	b = binary.BigEndian.AppendUint64(b, f.Number)
	return binary.BigEndian.AppendUint16(b, uint16(count))
}

// Decode reads a frame. Its keys share message's memory.
func Decode(message string) (Frame, error) {
	if len(message) < headerSize {
		return Frame{}, bad("%d bytes", len(message))
	}
	if message[0] != Version {
		return Frame{}, bad("version %d", message[0])
	}
	var f Frame
	copy(f.Sender[:], message[2:18])
	f.Number = number(message[18:26])
	count := int(number(message[26:28]))
	var err error
	switch kind := message[1]; kind {
	case kindKeys:
		f.Keys, err = decodeKeys(message[headerSize:], count)
	case kindAnnouncement:
		f.Announcement, err = decodeAnnouncement(message, count, f.Number)
	default:
		err = bad("kind %d", kind)
	}
	if err != nil {
		return Frame{}, err
	}
	return f, nil
}

func decodeKeys(rest string, count int) (keys []string, err error) {
	if count > MaxKeys {
		return nil, bad("%d keys", count)
	}
	for range count {
		if len(rest) < 4 || number(rest[:4]) > uint64(len(rest)-4) {
			return nil, bad("truncated")
		}
		end := 4 + int(number(rest[:4]))
		keys = append(keys, rest[4:end])
		rest = rest[end:]
	}
	if rest != "" {
		return nil, bad("%d trailing bytes", len(rest))
	}
	return keys, nil
}

func decodeAnnouncement(message string, count int, last uint64) (*Announcement, error) {
	if count > MaxSpans {
		return nil, bad("%d spans", count)
	}
	if size := announcementSize + count*spanSize; len(message) != size {
		return nil, bad("%d bytes, an announcement of %d spans has %d", len(message), count, size)
	}
	flags := message[headerSize]
	a := &Announcement{Steady: flags&flagSteady != 0, Goodbye: flags&flagGoodbye != 0,
		Since:  number(message[headerSize+1 : headerSize+9]),
		Window: time.Duration(number(message[headerSize+9:announcementSize])) * time.Millisecond}
	if flags&^(flagSteady|flagGoodbye) != 0 || a.Since > last {
		return nil, bad("flags %x, since %d of %d", flags, a.Since, last)
	}
	end := uint64(0)
	for at := announcementSize; at < len(message); at += spanSize {
		s := Span{number(message[at : at+8]), number(message[at+8 : at+spanSize])}
		if s.From == 0 || end > 0 && s.From-1 <= end || s.To < s.From || s.To > last {
			return nil, bad("span %d to %d of %d", s.From, s.To, last)
		}
		a.Unpublished = append(a.Unpublished, s)
		end = s.To
	}
	return a, nil
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBad, fmt.Sprintf(format, args...))
}

func number(s string) uint64 {
	var n uint64
	for i := range len(s) {
		n = n<<8 | uint64(s[i])
	}
	return n
}

package hostcall

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// The layout of poll_oneoff.
const (
	subscriptionSize = 48
	eventSize        = 32
	maxSubscriptions = 1024

	tagClock   = 0
	tagFdRead  = 1
	tagFdWrite = 2

	flagAbsolute = 1
)

// subscription is one thing that a guest waits for.
type subscription struct {
	userData uint64
	tag      uint8
	errno    uint16
	wait     time.Duration
}

// pollOneoff sleeps until the first clock of the list, which is how guests
// sleep. Of files there are the standard streams only, and they are always
// ready.
func pollOneoff(c *Call, mem api.Memory, a []uint32) int32 {
	in, out, count, result := a[0], a[1], a[2], a[3]
	if count == 0 || count > maxSubscriptions {
		return errnoInval
	}
	list, ok := mem.Read(in, count*subscriptionSize)
	if !ok {
		return errnoFault
	}
	subs := make([]subscription, count)
	first := time.Duration(math.MaxInt64)
	for i := range subs {
		subs[i] = c.subscription(list[i*subscriptionSize:])
		first = min(first, subs[i].wait)
	}
	if first > 0 {
		c.sleep(first)
	}
	events := make([]byte, 0, len(subs)*eventSize)
	for _, s := range subs {
		if s.wait <= first {
			events = s.appendEvent(events)
		}
	}
	return errnoOf(mem.Write(out, events) && mem.WriteUint32Le(result, uint32(len(events)/eventSize)))
}

func (c *Call) subscription(b []byte) subscription {
	s := subscription{userData: binary.LittleEndian.Uint64(b), tag: b[8]}
	switch s.tag {
	case tagClock:
		s.wait, s.errno = c.clockWait(b)
	case tagFdRead, tagFdWrite:
		if !isStdio(binary.LittleEndian.Uint32(b[16:])) {
			s.errno = errnoBadf
		}
	default:
		s.errno = errnoInval
	}
	return s
}

// clockWait is how long a clock's subscription lasts.
func (c *Call) clockWait(b []byte) (time.Duration, uint16) {
	now, ok := c.now(binary.LittleEndian.Uint32(b[16:]))
	if !ok {
		return 0, errnoInval
	}
	until := int64(min(binary.LittleEndian.Uint64(b[24:]), math.MaxInt64))
	if b[40]&flagAbsolute == 0 {
		return time.Duration(until), errnoSuccess
	}
	return max(0, time.Duration(until-now)), errnoSuccess
}

func (s subscription) appendEvent(b []byte) []byte {
	var e [eventSize]byte
	binary.LittleEndian.PutUint64(e[:], s.userData)
	binary.LittleEndian.PutUint16(e[8:], s.errno)
	e[10] = s.tag
	return append(b, e[:]...)
}

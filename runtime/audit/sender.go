// Package audit finds out that a message was lost on the way, which nothing
// else tells: pub/sub delivers at most once.
//
// A Sender numbers the frames of one node in one namespace and, at each
// heartbeat, announces which numbers its receivers must have. A Receiver keeps
// what one node heard on one channel and answers, a heartbeat after an
// announcement came, whether a number is missing. Both know numbers and moments,
// no connection; PROTOCOL.md, "Invalidation channel", has the argument why no
// loss goes unnoticed.
package audit

import (
	"sync"
	"time"

	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/frame"
)

// memory is for how many heartbeats a number is spoken of after it was given out.
const memory = 3

// Sender numbers the frames of one node in one namespace. It is safe for
// concurrent use.
type Sender struct {
	mu      sync.Mutex
	last    uint64       // guarded by mu; the last number given out
	flying  spans        // guarded by mu; given out, outcome not known yet
	failed  spans        // guarded by mu; not known to have been published
	history [memory]mark // guarded by mu; the latest heartbeats, newest first
}

// mark is what had been announced at a heartbeat.
type mark struct {
	number uint64
	at     time.Time
}

// NewSender makes a Sender that begins now.
func NewSender(now time.Time) *Sender {
	s := &Sender{}
	for i := range s.history {
		s.history[i].at = now
	}
	return s
}

// Next gives out the next number. Its outcome must be told.
func (s *Sender) Next() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.flying.add(s.last)
	return s.last
}

// Told says whether the frame of that number is known to have been published.
func (s *Sender) Told(number uint64, published bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flying.remove(number)
	if !published {
		s.failed.add(number)
	}
}

// Announcement is what there is to say now: the last number up to which every
// outcome is known, and the announcement. moved is false when all that was said
// often enough. It cannot be said in one frame when fits is false: too many
// publications failed, here and there.
func (s *Sender) Announcement(now time.Time) (number uint64, a frame.Announcement, moved, fits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	number = s.last
	if len(s.flying) > 0 {
		number = s.flying[0].From - 1
	}
	since := s.history[memory-1]
	a = frame.Announcement{Since: min(since.number, number), Unpublished: s.failed.upTo(number),
		Window: min(now.Sub(since.at).Truncate(time.Millisecond)+time.Millisecond, frame.MaxWindow)}
	moved = s.last != s.history[memory-1].number
	return number, a, moved, len(a.Unpublished) <= frame.MaxSpans
}

// Announced says that a heartbeat passed at which the announcement of that number
// went out, or was not needed.
func (s *Sender) Announced(number uint64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed.forget(s.history[memory-1].number) // said often enough
	copy(s.history[1:], s.history[:])
	s.history[0] = mark{number, now}
}

// Forgiven says that every receiver was told to reset instead: none has to have
// what failed up to that number.
func (s *Sender) Forgiven(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed.forget(number)
}

// Pulse is a sign of life: an announcement that a process makes at every
// heartbeat, in one of its namespaces. Who listens and does not hear its own
// hears nothing.
type Pulse struct {
	Channel string
	Node    entry.NodeID
	At      time.Time // before it was sent
}

package audit

import (
	"time"

	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/frame"
)

// trial is for how many heartbeats after a start announcements do not prove
// everything yet: those of a sender's window and one for what is on its way.
const trial = memory + 1

// silence is how long a sender may be silent before it is forgotten: longer than
// any window, or what was heard of it would count as lost.
const silence = 10 * time.Minute

// Bounds of what one channel may make a Receiver remember.
const (
	maxSenders = 10_000
	maxSpans   = 4096
	maxDue     = 100_000
)

// Receiver is what one node has heard on one channel. It is not safe for
// concurrent use.
type Receiver struct {
	heartbeat time.Duration
	began     time.Time // of this account: what came before does not count
	senders   map[entry.NodeID]*sender
	due       []audit // in the order of their moments
	full      bool    // of more than it may remember
}

// sender is one node as heard.
type sender struct {
	known  bool          // has announced itself
	steady bool          // and does so at every heartbeat
	gone   bool          // and has said goodbye
	window time.Duration // of its announcements
	base   uint64        // no number up to here is asked for any more
	heard  spans         // numbers after base
	last   time.Time
}

// audit is an announcement to be checked later: what it speaks of may come
// after it, over another node of a cluster.
type audit struct {
	at     time.Time
	sender *sender
	number uint64
	spared spans
}

// NewReceiver begins an account; heartbeat is that of the senders.
func NewReceiver(heartbeat time.Duration, now time.Time) *Receiver {
	r := &Receiver{heartbeat: heartbeat}
	r.Restart(now)
	return r
}

// Restart begins anew: all that was copied before has been dropped.
func (r *Receiver) Restart(now time.Time) {
	r.began, r.senders, r.due, r.full = now, map[entry.NodeID]*sender{}, nil, false
}

// OnTrial reports whether a loss may still go unnoticed, because senders are not
// known yet.
func (r *Receiver) OnTrial(now time.Time) bool {
	return now.Sub(r.began) < trial*r.heartbeat
}

// Hear takes a frame that came.
func (r *Receiver) Hear(f frame.Frame, now time.Time) {
	if r.full {
		return // all that counts now is that Complete says so
	}
	s := r.senders[f.Sender]
	if s == nil {
		if s = (&sender{}); len(r.senders) >= maxSenders {
			r.full = true
			return
		}
		r.senders[f.Sender] = s
	}
	s.last = now
	switch {
	case f.Announcement != nil:
		r.announced(s, f, now)
	case f.Number > s.base:
		s.heard.add(f.Number)
		r.full = r.full || len(s.heard) > maxSpans
	}
}

// announced: of a sender heard of for the first time, the receiver must have what
// was numbered after its account began, and cannot know which that is while the
// account is younger than the sender's window.
func (r *Receiver) announced(s *sender, f frame.Frame, now time.Time) {
	if !s.known {
		s.known, s.base = true, f.Number
		if now.Sub(r.began) >= f.Announcement.Window+r.heartbeat {
			s.base = f.Announcement.Since
		}
		s.heard.forget(s.base)
	}
	r.full = len(r.due) >= maxDue
	r.due = append(r.due, audit{now.Add(r.heartbeat), s, f.Number, f.Announcement.Unpublished})
	s.gone = s.gone || f.Announcement.Goodbye // what comes after a goodbye was overtaken by it
	s.steady, s.window = f.Announcement.Steady && !s.gone, f.Announcement.Window
}

// Silenced reports whether a sender that announced itself at every heartbeat has
// missed two without a goodbye: what else it says may not come either.
func (r *Receiver) Silenced(now time.Time) bool {
	for _, s := range r.senders {
		if s.steady && now.Sub(s.last) > max(2*r.heartbeat, s.window)+r.heartbeat/2 {
			return true
		}
	}
	return false
}

// Complete checks the announcements whose time has come; false when a message was
// lost, or there was too much to remember. It forgets senders that have fallen
// silent: when they speak again they are new.
func (r *Receiver) Complete(now time.Time) bool {
	complete := !r.full
	done := 0
	for ; done < len(r.due) && !r.due[done].at.After(now); done++ {
		complete = r.due[done].holds() && complete
	}
	r.due = append(r.due[:0], r.due[done:]...)
	for id, s := range r.senders {
		if now.Sub(s.last) > silence {
			delete(r.senders, id)
		}
	}
	return complete
}

// Pending reports whether there are announcements to check, now or later.
func (r *Receiver) Pending() bool { return len(r.due) > 0 }

// holds reports whether the sender's frames up to the number came, and settles
// them.
func (a audit) holds() bool {
	s := a.sender
	complete := s.heard.cover(s.base, a.number, a.spared)
	if a.number > s.base {
		s.base = a.number
		s.heard.forget(a.number)
	}
	return complete
}

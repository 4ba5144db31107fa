package audit

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/frame"
)

const heartbeat = 5 * time.Second

var start = time.Now()

// after is the moment n heartbeats after the start.
func after(n float64) time.Time { return start.Add(time.Duration(n * float64(heartbeat))) }

var node = entry.NodeID{1}

// talk is a sender and a receiver whose wire loses what the test says.
type talk struct {
	*testing.T
	sender   *Sender
	receiver *Receiver
}

func newTalk(t *testing.T) *talk {
	return &talk{t, NewSender(after(-10)), NewReceiver(heartbeat, start)}
}

// frame sends the next frame; it is heard unless lost.
func (w *talk) frame(at float64, lost bool) {
	n := w.sender.Next()
	if !lost {
		w.receiver.Hear(frame.Frame{Sender: node, Number: n}, after(at))
	}
	w.sender.Told(n, true)
}

// announce sends what there is to announce.
func (w *talk) announce(at float64, lost bool) (moved bool) {
	number, a, moved, fits := w.sender.Announcement(after(at))
	if !fits {
		w.Fatal("does not fit")
	}
	w.sender.Announced(number, after(at))
	if moved && !lost {
		w.receiver.Hear(frame.Frame{Sender: node, Number: number, Announcement: &a}, after(at))
	}
	return moved
}

// idle lets heartbeats pass at which the receiver hears nothing.
func (w *talk) idle(from, to float64) {
	for at := from; at <= to; at++ {
		w.announce(at, true)
	}
}

func (w *talk) want(at float64, complete bool) {
	w.Helper()
	if got := w.receiver.Complete(after(at)); got != complete {
		w.Fatalf("after %v heartbeats: complete %v", at, got)
	}
}

func TestALostFrameIsMissedAHeartbeatAfterItsAnnouncement(t *testing.T) {
	w := newTalk(t)
	w.idle(0, 10)
	w.frame(10, false)
	w.frame(10, true)
	w.announce(11, false)
	w.want(11.9, true)
	w.want(12, false)
	w.receiver.Restart(after(12))
	w.announce(12, false)
	w.want(14, true)
}

// Whatever is lost under steady traffic is missed, and nothing else.
func TestSteadyTraffic(t *testing.T) {
	for _, lost := range []int{-1, 0, 7, 19} {
		w := newTalk(t)
		w.idle(0, 9.5)
		missed := false
		for i := range 20 {
			at := 10 + float64(i)
			w.frame(at, i == lost)
			w.frame(at, false)
			w.announce(at+0.5, false)
			missed = missed || !w.receiver.Complete(after(at+0.6))
		}
		missed = missed || !w.receiver.Complete(after(32))
		if missed != (lost >= 0) {
			t.Errorf("frame %d lost, missed: %v", lost, missed)
		}
	}
}

// A sender that was idle since before the account began is heard of for the first
// time by its announcement: what it published lately must have come.
func TestFirstFrameOfAnIdleSenderLost(t *testing.T) {
	w := newTalk(t)
	for range 100 {
		w.frame(-5, true) // before the account
	}
	w.idle(-4.5, 19.5)
	w.frame(20, true)
	w.announce(20.5, true) // and so are the first announcements
	w.announce(21.5, true)
	w.announce(22.5, false)
	w.want(23.5, false)
}

// While the account is young it cannot tell what came before it: the receiver is
// on trial.
func TestWhatCameBeforeTheAccountIsNotAskedFor(t *testing.T) {
	w := newTalk(t)
	w.frame(-1, true)
	w.frame(-0.1, true)
	w.announce(0.5, false)
	w.want(1.5, true)
	if !w.receiver.OnTrial(after(3.9)) || w.receiver.OnTrial(after(4)) {
		t.Error("the trial is not four heartbeats")
	}
	w.frame(1, false)
	w.announce(1.5, false)
	w.want(2.5, true)
}

// A sender whose heartbeat is much longer than the receiver's is asked for what came
// since the account began, and for nothing that came before, however long both go on.
func TestDifferentHeartbeats(t *testing.T) {
	w := newTalk(t)
	w.frame(-3, true)
	w.announce(0, true)
	w.frame(7, false)
	w.announce(8, false)
	w.want(9, true)
	w.frame(15, false)
	w.announce(16, false)
	w.want(17, true)
	w.frame(20, true)
	w.announce(24, false)
	w.want(25, false)
}

// A frame that was not published need not be heard, one whose outcome is open is
// not spoken of yet, and one that was published after all is harmless.
func TestUnpublishedFramesAreSpared(t *testing.T) {
	w := newTalk(t)
	w.announce(0, false)
	w.frame(10, false)
	refused := w.sender.Next()
	w.sender.Told(refused, false)
	w.frame(10, false)
	open := w.sender.Next()
	w.frame(10, true)
	w.announce(11, false)
	w.want(12, true) // the lost one is behind the open one
	w.receiver.Hear(frame.Frame{Sender: node, Number: refused}, after(12))
	w.receiver.Hear(frame.Frame{Sender: node, Number: open}, after(12))
	w.sender.Told(open, true)
	w.announce(12, false)
	w.want(13, false)
}

func TestAnnouncementsEnd(t *testing.T) {
	w := newTalk(t)
	if w.announce(0, false) {
		t.Error("announced nothing")
	}
	w.frame(1, false)
	for i := range memory {
		if !w.announce(float64(2+i), false) {
			t.Errorf("silent after %d announcements", i)
		}
	}
	if w.announce(9, false) {
		t.Error("never ends")
	}
}

func TestTooManyFailures(t *testing.T) {
	s := NewSender(start)
	for range frame.MaxSpans + 1 {
		s.Told(s.Next(), false)
		s.Told(s.Next(), true)
	}
	number, _, _, fits := s.Announcement(start)
	if fits {
		t.Fatal("65 spans fit")
	}
	s.Forgiven(number)
	if _, a, _, fits := s.Announcement(start); !fits || len(a.Unpublished) != 0 {
		t.Errorf("after the reset: %d spans", len(a.Unpublished))
	}
	failed := s.Next()
	s.Told(failed, false)
	for i := range memory + 2 { // and failures are not spoken of for ever
		n, a, _, _ := s.Announcement(start)
		if spoken := spans(a.Unpublished).has(failed); spoken != (i <= memory) {
			t.Errorf("after %d announcements it speaks of the failure: %v", i, spoken)
		}
		s.Announced(n, start)
	}
}

func TestSilence(t *testing.T) {
	for _, c := range []struct {
		name string
		a    frame.Announcement
		want bool
	}{
		{"steady", frame.Announcement{Steady: true}, true},
		{"now and then", frame.Announcement{}, false},
		{"goodbye", frame.Announcement{Steady: true, Goodbye: true}, false},
		{"steady, overtaken by its goodbye", frame.Announcement{Steady: true}, false},
	} {
		r := NewReceiver(heartbeat, start)
		if strings.Contains(c.name, "overtaken") {
			r.Hear(frame.Frame{Sender: node, Announcement: &frame.Announcement{Goodbye: true}}, after(1))
		}
		r.Hear(frame.Frame{Sender: node, Announcement: &c.a}, after(1))
		if r.Silenced(after(3)) {
			t.Errorf("%s: silenced after two heartbeats sharp", c.name)
		}
		if got := r.Silenced(after(4)); got != c.want {
			t.Errorf("%s: silenced %v", c.name, got)
		}
		r.Complete(after(1).Add(silence + 1))
		if len(r.senders) != 0 {
			t.Errorf("%s: not forgotten", c.name)
		}
	}
}

// What it remembers has a bound; past it a message counts as lost.
func TestFlood(t *testing.T) {
	senders := NewReceiver(heartbeat, start)
	for range maxSenders + 1 {
		senders.Hear(frame.Frame{Sender: entry.NewNodeID(), Number: 1}, start)
	}
	numbers := NewReceiver(heartbeat, start)
	for i := range uint64(maxSpans + 1) {
		numbers.Hear(frame.Frame{Sender: node, Number: 2*i + 1}, start)
	}
	for name, r := range map[string]*Receiver{"senders": senders, "numbers": numbers} {
		if r.Complete(start) {
			t.Errorf("a flood of %s goes unnoticed", name)
		}
		r.Restart(start)
		if !r.Complete(start) {
			t.Errorf("%s: still full after a restart", name)
		}
	}
}

func TestSpansAreASet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var s spans
		set := map[uint64]bool{}
		for range 60 {
			n := 1 + random.Uint64N(40)
			switch random.IntN(8) {
			case 0:
				s.forget(n)
				for k := range set {
					if k <= n {
						delete(set, k)
					}
				}
			case 1, 2:
				s.remove(n)
				delete(set, n)
			default:
				s.add(n)
				set[n] = true
			}
			for i, span := range s {
				if span.From > span.To || i > 0 && s[i-1].To+1 >= span.From {
					t.Fatalf("not spans: %v", s)
				}
			}
			for k := uint64(1); k <= 41; k++ {
				if s.has(k) != set[k] {
					t.Fatalf("%v has %d: %v", s, k, s.has(k))
				}
			}
			lo, hi := random.Uint64N(40), random.Uint64N(42)
			want := true
			for k := lo + 1; k <= hi; k++ {
				want = want && set[k]
			}
			if s.cover(lo, hi, nil) != want || spans(nil).cover(lo, hi, s) != want {
				t.Fatalf("%v covers (%d, %d]: want %v", s, lo, hi, want)
			}
			for k := uint64(1); k <= 41; k++ {
				if spans(s.upTo(hi)).has(k) != (set[k] && k <= hi) {
					t.Fatalf("%v up to %d: %v", s, hi, s.upTo(hi))
				}
			}
		}
	}
}

package channel

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/tests/wire"
)

// speaker is another process that writes in a namespace.
type speaker struct {
	*l1.Namespace
	client *l1.Client
	close  func() // as a crash does: without a goodbye
}

func (w *world) speaker(name string) *speaker {
	w.Helper()
	client := l1.Open(l1.Options{Addresses: []string{"embedded"}, Dial: w.dial, Logger: quiet})
	s := &speaker{client.Namespace(name, entry.NewNodeID()), client, client.Close}
	w.Cleanup(client.Close)
	if err := s.Join(ctx); err != nil {
		w.Fatal(err)
	}
	return s
}

func (s *speaker) invalidate(w *world, key string) {
	w.Helper()
	if err := s.Invalidate(ctx, []string{key}, 0)[0]; err != nil {
		w.Fatal(err)
	}
}

// A message that is lost silently, while the connection answers, is missed at the
// latest two heartbeats and an audit later, whatever comes in between, and however
// long the sender was idle before.
func TestALostMessageIsMissed(t *testing.T) {
	for name, traffic := range map[string]bool{"then silence": false, "in steady traffic": true} {
		for idle, before := range map[string]time.Duration{"known sender": 16 * time.Second, "sender long idle": 10 * time.Minute} {
			t.Run(name+", "+idle, func(t *testing.T) {
				bubble(t, Options{}, func(w *world) {
					r := w.add("cocache:inv:n")
					s := w.speaker("n")
					w.want(r, append(confirmed, "changed ")...) // its first frame has no keys
					time.Sleep(before)
					w.wire.Lose("lost key")
					s.invalidate(w, "lost key")
					began := time.Now()
					for len(r.resets()) == 0 && time.Since(began) < time.Minute {
						if traffic {
							s.invalidate(w, "k")
						}
						time.Sleep(100 * time.Millisecond)
					}
					if got := r.resets(); len(got) != 1 || got[0] != "reset audit" {
						t.Fatalf("resets: %q", got)
					}
					if took := time.Since(began); took > 2*heartbeat+heartbeat*3/10+100*time.Millisecond {
						t.Errorf("missed after %v", took)
					}
				})
			})
		}
	}
}

// Nothing is missed that was not lost: refused and unknown writes, restarts,
// several senders, connections made anew.
func TestNothingIsMissedThatWasNotLost(t *testing.T) {
	bubble(t, Options{}, func(w *world) {
		r := w.add("cocache:inv:n")
		speakers := []*speaker{w.speaker("n"), w.speaker("n"), w.speaker("n")}
		for i := range 600 {
			s := speakers[i%3]
			s.invalidate(w, "k")
			switch {
			case i == 100:
				s.Leave(ctx)
				s.close()
				speakers[i%3] = w.speaker("n")
			case i == 200:
				s.close()
				speakers[i%3] = w.speaker("n")
			case i == 300:
				w.wire.Cut(wire.Feed)
			case i%10 == 0: // its caller has gone
				gone, cancel := context.WithCancel(ctx)
				cancel()
				if err := s.Invalidate(gone, []string{"k"}, 0)[0]; err == nil {
					t.Error("sent for nobody")
				}
			}
			time.Sleep(time.Duration(i%7) * 100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		for _, event := range r.resets()[1:] { // the first confirmation's
			if event == "reset audit" || event == "reset frame" {
				t.Errorf("resets: %q", r.resets())
			}
		}
	})
}

// While its senders are not known, a channel is relied on for less.
func TestRelianceGrows(t *testing.T) {
	bubble(t, Options{}, func(w *world) {
		w.add("c")
		for _, step := range []struct{ after, want time.Duration }{
			{0, 2 * heartbeat}, {4*heartbeat - time.Millisecond, 2 * heartbeat}, {4*heartbeat + time.Millisecond, 1<<63 - 1},
		} {
			time.Sleep(step.after)
			if got := w.feed.Reliance("c"); got != step.want {
				t.Errorf("after %v: %v, want %v", step.after, got, step.want)
			}
		}
		if got := w.feed.Reliance("other"); got != heartbeat {
			t.Errorf("of a channel that is not there: %v", got)
		}
	})
}

// A connection that answers PING and brings no messages is noticed by the process's
// own sign of life.
func TestADeafConnectionIsNoticed(t *testing.T) {
	bubble(t, Options{}, func(w *world) {
		name := "n"
		own := w.client.Namespace(name, node)
		r := &recorder{}
		if err := w.feed.Add(ctx, own.Channel(), node, r); err != nil {
			t.Fatal(err)
		}
		if err := own.Join(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		w.want(r, append(confirmed, "changed ")...)
		for range 10 {
			w.wire.Lose("\x01\x01") // announcements
		}
		began := time.Now()
		for len(r.resets()) == 0 && time.Since(began) < time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(began); took > 3*heartbeat+time.Second {
			t.Errorf("noticed after %v", took)
		}
		if got := r.resets(); len(got) == 0 || got[0] != "reset heartbeat" {
			t.Errorf("resets: %q", got)
		}
		own.Leave(ctx)
	})
}

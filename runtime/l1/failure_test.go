package l1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/tests/redistest"
	"github.com/cocache/cocache/tests/wire"
)

// verbs is one command of each kind on the key "k".
var verbs = map[string]func(ctx context.Context, n *Namespace) error{
	"read": func(ctx context.Context, n *Namespace) error { _, err := n.Read(ctx, "k", forLease); return err },
	"readAll": func(ctx context.Context, n *Namespace) error {
		return n.ReadAll(ctx, []string{"k", "l"}, forLease)[0].Err
	},
	"fill": func(ctx context.Context, n *Namespace) error {
		_, err := n.Fill(ctx, "k", entry.Token{1}, value("late"))
		return err
	},
	"release": func(ctx context.Context, n *Namespace) error { return n.Release(ctx, "k", entry.Token{1}) },
	"reclaim": func(ctx context.Context, n *Namespace) error {
		_, _, err := n.Reclaim(ctx, "k", "text", time.Minute)
		return err
	},
	"put":        func(ctx context.Context, n *Namespace) error { return n.Put(ctx, "k", value("late")) },
	"invalidate": func(ctx context.Context, n *Namespace) error { return n.Invalidate(ctx, []string{"k"}, 0)[0] },
}

// lateVerbs are those that carry a not-after, with what makes each change the
// key if it runs.
var lateVerbs = map[string]string{"read": "", "readAll": "", "reclaim": "text", "put": "text", "invalidate": "text"}

func (w *world) lay(content string) {
	if content != "" {
		w.do("SET", prefix+"k", content)
	}
}

// TestACommandOnTheWireAfterItsCallerGaveUpChangesNothing (I8).
func TestACommandOnTheWireAfterItsCallerGaveUpChangesNothing(t *testing.T) {
	for name, gaveUp := range map[string]time.Duration{"command timeout": time.Second, "own deadline": 100 * time.Millisecond} {
		for verb, content := range lateVerbs {
			t.Run(name+"/"+verb, func(t *testing.T) {
				bubble(t, Options{}, func(w *world, tap *wire.Wire) {
					w.lay(content)
					own, cancel := context.WithTimeout(ctx, gaveUp)
					defer cancel()
					tap.Hold(wire.All)
					start := time.Now()
					w.failed(verbs[verb](own, w.a), true)
					if took := time.Since(start); took != gaveUp {
						t.Errorf("gave up after %v", took)
					}
					time.Sleep(10 * time.Millisecond)
					tap.Release()
					time.Sleep(time.Second)
					if got := w.bytes("k"); got != content {
						t.Errorf("it ran: %q", got)
					}
				})
			})
		}
	}
}

func TestACommandThatArrivesInTimeRunsThoughItsAnswerComesTooLate(t *testing.T) {
	for verb, content := range lateVerbs {
		t.Run(verb, func(t *testing.T) {
			bubble(t, Options{}, func(w *world, tap *wire.Wire) {
				w.lay(content)
				tap.Hold(wire.All)
				time.AfterFunc(900*time.Millisecond, func() { tap.Mute(wire.All, true); tap.Release() })
				w.failed(verbs[verb](ctx, w.a), true)
				time.Sleep(time.Second)
				tap.Mute(wire.All, false)
				if got := w.bytes("k"); got == content {
					t.Errorf("it did not run: %q", got)
				}
			})
		})
	}
}

func TestALateFillStillCountsUnderItsToken(t *testing.T) {
	bubble(t, Options{}, func(w *world, tap *wire.Wire) {
		token := w.lease(w.a, "k")
		tap.Hold(wire.All)
		_, err := w.a.Fill(ctx, "k", token, value("v"))
		w.failed(err, true)
		tap.Release()
		time.Sleep(time.Second)
		if got := w.entry("k").Payload; got != "v" {
			t.Errorf("holds %q", got)
		}
	})
}

func TestAServerClockAheadIsLearntFromOneLateAnswer(t *testing.T) {
	for verb, content := range lateVerbs {
		t.Run(verb, func(t *testing.T) {
			bubble(t, Options{}, func(w *world, tap *wire.Wire) {
				w.lay(content)
				w.client.clock.learn(time.Now().Add(-time.Hour).UnixMilli())
				if err := verbs[verb](ctx, w.a); err != nil {
					t.Fatal(err)
				}
				if w.bytes("k") == content {
					t.Error("it did not run")
				}
				if off := w.client.clock.after(0) - time.Now().UnixMilli(); off != 0 {
					t.Errorf("the estimate is off by %d ms", off)
				}
			})
		})
	}
}

func TestABatchIsOneRoundTrip(t *testing.T) {
	bubble(t, Options{}, func(w *world, tap *wire.Wire) {
		var keys []string
		for i := range 500 {
			keys = append(keys, fmt.Sprint(i))
		}
		const there = 100 * time.Millisecond
		tap.Slow(wire.All, there)
		took := func(what string, do func()) {
			t.Helper()
			start := time.Now()
			do()
			if d := time.Since(start); d != there {
				t.Errorf("%s takes %v, one way is %v", what, d, there)
			}
		}
		var fills []KeyFill
		took("a read", func() {
			for i, o := range w.a.ReadAll(ctx, keys, forLease) {
				fills = append(fills, KeyFill{Key: keys[i], Token: o.Reading.Token, Fill: value("v")})
			}
		})
		took("a fill", func() {
			for i, o := range w.a.FillAll(ctx, fills) {
				if !o.Stored || o.Err != nil {
					t.Fatalf("%s: %+v", keys[i], o)
				}
			}
		})
		took("an invalidation", func() { w.invalidate(slices.Repeat(keys, 4)...) })
	})
}

func TestALateAttemptPublishesNothing(t *testing.T) {
	bubble(t, Options{}, func(w *world, tap *wire.Wire) {
		next := w.hear()
		w.client.clock.learn(1)
		w.put("k", value("v"))
		w.invalidate("k")
		for number := range uint64(2) {
			if f := next(); f.Number != number+1 {
				t.Errorf("frame %d, want %d", f.Number, number+1)
			}
		}
	})
}

func TestWithoutAConnectionNothingIsSent(t *testing.T) {
	for verb, run := range verbs {
		t.Run(verb, func(t *testing.T) {
			bubble(t, Options{}, func(w *world, tap *wire.Wire) {
				refused := errors.New("connection refused")
				tap.Down(refused)
				tap.Cut(wire.All)
				never := Open(Options{Addresses: []string{"embedded"}, Dial: tap.Dial, Logger: quiet})
				if e := w.failed(run(ctx, never.Namespace("n", w.nodeA)), false); !errors.Is(e, ErrAway) || e.Answered() {
					t.Errorf("never connected: %v", e)
				}
				never.Close()
				e := &Error{OutcomeUnknown: true}
				for e.OutcomeUnknown { // some connections are found cut by writing to them
					if err := run(ctx, w.a); !errors.As(err, &e) {
						t.Fatalf("cut off: %v", err)
					}
				}
				if !errors.Is(e, refused) || e.Answered() {
					t.Errorf("connected before: %v", e)
				}
				tap.Down(nil)
				tap.Cut(wire.All)
				w.eventually("reconnected", func() bool { return run(ctx, w.a) == nil })
				w.client.Close()
				if e := w.failed(run(ctx, w.a), false); !errors.Is(e, ErrAway) {
					t.Errorf("closed: %v", e)
				}
				if err := w.client.Probe(ctx); !errors.Is(err, ErrAway) {
					t.Errorf("probe of a closed client: %v", err)
				}
			})
		})
	}
}

func TestWhatIsInFlightAtCloseHasAnUnknownOutcome(t *testing.T) {
	bubble(t, Options{CommandTimeout: time.Minute}, func(w *world, tap *wire.Wire) {
		tap.Hold(wire.All)
		var wg sync.WaitGroup
		for i := range 16 { // more than connections, so that some are pipelined
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				w.failed(w.a.Put(ctx, fmt.Sprint(i), value("v")), true)
			})
		}
		time.Sleep(time.Second)
		w.client.Close()
		wg.Wait()
	})
}

func TestALostReplyIsAnUnknownOutcome(t *testing.T) {
	for verb, run := range verbs {
		t.Run(verb, func(t *testing.T) {
			bubble(t, Options{}, func(w *world, tap *wire.Wire) {
				tap.Mute(wire.All, true)
				if e := w.failed(run(ctx, w.a), true); e.Answered() || !errors.Is(e, context.DeadlineExceeded) {
					t.Errorf("%v", e)
				}
				tap.Mute(wire.All, false)
				if err := run(ctx, w.a); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
	t.Run("the connection breaks", func(t *testing.T) {
		bubble(t, Options{}, func(w *world, tap *wire.Wire) {
			tap.Hold(wire.All)
			time.AfterFunc(time.Millisecond, func() { tap.Down(nil); tap.Cut(wire.All) })
			w.failed(w.a.Put(ctx, "k", value("v")), true)
		})
	})
}

func TestAContextThatHasEndedSendsNothing(t *testing.T) {
	ended, cancel := context.WithCancelCause(ctx)
	why := errors.New("the reader left")
	cancel(why)
	for verb, run := range verbs {
		t.Run(verb, func(t *testing.T) {
			bubble(t, Options{}, func(w *world, tap *wire.Wire) {
				w.do("SET", prefix+"k", "text")
				if e := w.failed(run(ended, w.a), false); !errors.Is(e, why) {
					t.Errorf("%v", e)
				}
				if got := w.bytes("k"); got != "text" {
					t.Errorf("holds %q", got)
				}
			})
		})
	}
}

func TestANoOfTheServerIsARefusal(t *testing.T) {
	server := redistest.Start(t)
	w := newWorld(t, Options{Addresses: []string{server.Addr}, CommandTimeout: 20 * time.Second})
	next := w.hear()
	refuse := func(verb, text string, n *Namespace, wantFrames bool) {
		t.Helper()
		before := w.bytes("k")
		e := w.failed(verbs[verb](ctx, n), false)
		if !e.Answered() || !strings.Contains(e.Error(), text) {
			t.Errorf("%s: %v", verb, e)
		}
		if got := w.bytes("k"); got != before {
			t.Errorf("%s: the key changed to %q", verb, got)
		}
		if wantFrames {
			next()
		}
	}
	t.Run("publish is denied by and by", func(t *testing.T) {
		w.do("ACL", "SETUSER", "mute", "on", ">secret", "~*", "+@all", "&*")
		mute := Open(Options{Addresses: []string{server.Addr}, Username: "mute", Password: "secret", Logger: quiet, CommandTimeout: 20 * time.Second})
		defer mute.Close()
		w.do("ACL", "SETUSER", "mute", "resetchannels")
		n := mute.Namespace("n", w.nodeA)
		w.put("k", value("v"))
		next()
		refuse("put", "channel", n, false)
		refuse("invalidate", "channel", n, false)
		w.failed(n.Join(ctx), false)
		if r := w.read(n, "k", Ask{}); r.Kind != Hit {
			t.Errorf("reads %+v", r)
		}
	})
	t.Run("scripts are denied", func(t *testing.T) {
		w.do("ACL", "SETUSER", "dumb", "on", ">secret", "~*", "&*", "+@all", "-eval", "-evalsha")
		dumb := Open(Options{Addresses: []string{server.Addr}, Username: "dumb", Password: "secret", Logger: quiet})
		defer dumb.Close()
		select {
		case <-dumb.Ready():
			t.Error("a server that refuses scripts is ready")
		default:
		}
	})
	t.Run("out of memory", func(t *testing.T) {
		w.do("CONFIG", "SET", "maxmemory", "1")
		defer w.do("CONFIG", "SET", "maxmemory", "0")
		refuse("put", "OOM", w.a, true)
		if err := w.a.Invalidate(ctx, []string{"k"}, time.Hour)[0]; err != nil { // there is no memory to keep a copy
			w.Error(err)
		}
		w.life("k", gone)
		refuse("read", "OOM", w.a, false)
		w.life("k", gone)
	})
}

func TestOpenWithoutRedisConnectsLater(t *testing.T) {
	port := redistest.FreePort(t)
	addr := fmt.Sprint("127.0.0.1:", port)
	for name, mode := range map[string]Mode{"auto": Auto, "standalone": Standalone} {
		t.Run(name, func(t *testing.T) {
			c := Open(Options{Mode: mode, Addresses: []string{addr}, Logger: quiet})
			defer c.Close()
			n := c.Namespace("n", entry.NewNodeID())
			var e *Error
			if err := n.Put(ctx, "k", value("v")); !errors.As(err, &e) || e.OutcomeUnknown || !errors.Is(err, ErrAway) {
				t.Fatalf("without redis: %v", err)
			}
			redistest.StartOn(t, port)
			<-c.Ready()
			if err := n.Put(ctx, "k", value("v")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCloseEndsTheWaitForRedis(t *testing.T) {
	bubble(t, Options{}, func(w *world, tap *wire.Wire) {
		tap.Down(net.ErrClosed)
		tap.Cut(wire.All)
		c := Open(Options{Addresses: []string{"embedded"}, Dial: tap.Dial, Logger: quiet})
		time.Sleep(time.Minute)
		c.Close()
		select {
		case <-c.Ready():
			t.Error("ready")
		default:
		}
	})
}

func TestModeIsDetectedOrHeldTo(t *testing.T) {
	single, cluster := redistest.Start(t), redistest.StartCluster(t)
	for _, test := range []struct {
		mode    Mode
		server  *redistest.Server
		ready   bool
		cluster bool
	}{
		{"", single, true, false},
		{Auto, single, true, false},
		{Standalone, single, true, false},
		{Cluster, single, false, false},
		{Auto, cluster, true, true},
		{Cluster, cluster, true, true},
	} {
		c := Open(Options{Mode: test.mode, Addresses: []string{test.server.Addr}, Logger: quiet, CommandTimeout: 20 * time.Second})
		conn := c.conn.Load()
		if (conn != nil) != test.ready || conn != nil && conn.cluster != test.cluster {
			t.Errorf("%q: %+v", test.mode, conn)
		}
		c.Close()
	}
}

package channel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/tests/redistest"
	"github.com/cocache/cocache/tests/wire"
)

func TestAConfirmationResetsOnceAndOpensTheFeed(t *testing.T) {
	bubble(t, Options{}, func(w *world) {
		r := w.add("c")
		w.want(r, confirmed...)
		if !w.feed.Up() {
			t.Error("not up")
		}
		time.Sleep(10 * time.Minute)
		w.quiet(r)
	})
}

// watcher notes, at each reset, whether its channel counts as confirmed.
type watcher struct {
	recorder
	feed *Subscriber
}

func (h *watcher) Reset(Cause) {
	h.add(fmt.Sprint("reset while confirmed: ", h.feed.Reliance("c") > heartbeat))
}

// Nobody takes a channel for sound before its namespace was reset, nor after it
// was lost.
func TestAChannelIsNotConfirmedWhileItsNamespaceIsReset(t *testing.T) {
	bubble(t, Options{}, func(w *world) {
		h := &watcher{feed: w.feed}
		if err := w.feed.Add(ctx, "c", node, h); err != nil {
			t.Fatal(err)
		}
		if !w.up("c") || w.up("other") {
			t.Error("not confirmed")
		}
		w.wire.Cut(wire.All)
		w.want(&h.recorder, slices.Repeat([]string{"reset while confirmed: false"}, 3)...)
		synctest.Wait()
		if !w.up("c") {
			t.Error("not confirmed again")
		}
	})
}

// TestAddWhileConnectingResetsOnce: the channel reaches the connection both by
// its first list and by Add's own word.
func TestAddWhileConnectingResetsOnce(t *testing.T) {
	for range 20 {
		bubble(t, Options{}, func(w *world) {
			for range 10 {
				w.wire.Far(time.Duration(rand.IntN(3)) * time.Millisecond)
				feed := Open(w.client, Options{Logger: quiet})
				var wg sync.WaitGroup
				recorders := map[string]*recorder{"a": {}, "b": {}, "c": {}}
				for channel, r := range recorders {
					wg.Go(func() {
						time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond)
						if err := feed.Add(ctx, channel, node, r); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				time.Sleep(time.Minute)
				for _, r := range recorders {
					w.want(r, confirmed...)
				}
				feed.Close()
			}
		})
	}
}

func TestAnotherChannelResetsNone(t *testing.T) {
	bubble(t, Options{}, func(w *world) {
		first := w.add("first")
		w.want(first, confirmed...)
		for i := range 20 {
			w.want(w.add(fmt.Sprint(i)), confirmed...)
		}
		time.Sleep(time.Minute)
		w.quiet(first)
		w.feed.Remove("3", node)
		time.Sleep(time.Minute)
		w.quiet(first)
	})
}

func TestFramesReachTheirHandlerInOrder(t *testing.T) {
	bubble(t, Options{}, func(w *world) {
		a, b := w.add("a"), w.add("b")
		w.want(a, confirmed...)
		w.want(b, confirmed...)
		w.publish("a", keys("1", "2"))
		w.publish("b", keys("\x00"))
		w.publish("a", keys())
		w.publish("a", keys(""))
		w.publish("stranger", keys("x"))
		w.want(a, "changed 1,2", "changed ", "changed ")
		w.want(b, "changed \x00")
	})
}

func TestAFrameThatCannotBeReadResetsItsChannelAlone(t *testing.T) {
	good := keys("k")
	for name, message := range map[string]string{
		"empty": "", "text": "hello", "version 2": "\x02" + good[1:], "kind 1": good[:1] + "\x01" + good[2:],
		"truncated": good[:len(good)-1], "trailing byte": good + "x", "count": good[:27] + "\x02" + good[28:],
		"513 keys": good[:26] + "\x02\x01" + strings.Repeat("\x00\x00\x00\x00", 513),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, func(w *world) {
				a, b := w.add("a"), w.add("b")
				w.want(a, confirmed...)
				w.want(b, confirmed...)
				w.publish("a", message)
				w.publish("a", good)
				w.want(a, "reset frame", "changed k")
				time.Sleep(time.Minute)
				w.quiet(b)
				w.quiet(a)
			})
		})
	}
}

func TestACutConnectionIsToldAndMadeAnew(t *testing.T) {
	bubble(t, Options{}, func(w *world) {
		a, b := w.add("a"), w.add("b")
		w.want(a, confirmed...)
		w.want(b, confirmed...)
		for range 3 {
			w.wire.Cut(wire.All)
			w.want(a, slices.Concat(lost, confirmed)...)
			w.want(b, slices.Concat(lost, confirmed)...)
			w.publish("a", keys("k"))
			w.want(a, "changed k")
			w.quiet(b)
		}
	})
}

func TestWhileRedisIsAwayTheLossIsToldOnce(t *testing.T) {
	bubble(t, Options{}, func(w *world) {
		r := w.add("c")
		w.want(r, confirmed...)
		w.wire.Down(errors.New("refused"))
		w.wire.Cut(wire.All)
		time.Sleep(10 * time.Minute)
		w.want(r, lost...)
		if w.feed.Up() {
			t.Error("up")
		}
		late := &recorder{}
		start := time.Now()
		if err := w.feed.Add(ctx, "late", node, late); err == nil || time.Since(start) != time.Second {
			t.Errorf("added after %v: %v", time.Since(start), err)
		}
		w.quiet(late)
		w.wire.Down(nil)
		w.want(r, confirmed...)
		w.want(late, confirmed...)
		if !w.feed.Up() {
			t.Error("not up")
		}
		time.Sleep(time.Minute)
		w.quiet(r)
	})
}

// TestADeadConnectionIsNoticedByTheHeartbeat though nothing ever tells of it.
func TestADeadConnectionIsNoticedByTheHeartbeat(t *testing.T) {
	for _, o := range []Options{
		{},
		{Heartbeat: 500 * time.Millisecond, Timeout: 200 * time.Millisecond},
		{Heartbeat: time.Second, Timeout: 2 * time.Second},
	} {
		t.Run(fmt.Sprint(o.Heartbeat, o.Timeout), func(t *testing.T) {
			bubble(t, o, func(w *world) {
				r := w.add("c")
				w.want(r, confirmed...)
				limit := w.feed.opts.Heartbeat + w.feed.opts.Timeout
				w.wire.Numb(wire.All)
				time.Sleep(limit)
				synctest.Wait()
				if got := r.events(); len(got) < len(lost) || !slices.Equal(got[:len(lost)], lost) {
					t.Fatalf("after %v told %q", limit, got)
				}
				w.want(r, slices.Concat(lost, confirmed)...)
				w.publish("c", keys("k"))
				w.want(r, "changed k")
			})
		})
	}
}

func TestRemoveEndsTheMessages(t *testing.T) {
	bubble(t, Options{}, func(w *world) {
		gone, stays := w.add("gone"), w.add("stays")
		w.want(gone, confirmed...)
		w.want(stays, confirmed...)
		w.feed.Remove("gone", node)
		w.publish("gone", keys("k"))
		w.publish("gone", "bad")
		w.publish("stays", keys("k"))
		w.want(stays, "changed k")
		w.wire.Cut(wire.All)
		w.want(stays, slices.Concat(lost, confirmed)...)
		time.Sleep(time.Minute)
		w.quiet(gone)
		if n, err := w.raw.Do(ctx, w.raw.B().PubsubNumsub().Channel("gone").Build()).AsMap(); err != nil {
			t.Error(err)
		} else if m := n["gone"]; m.String() == "1" {
			t.Error("redis still sends it")
		}
		again := w.add("gone")
		w.want(again, confirmed...)
		w.publish("gone", keys("k"))
		w.want(again, "changed k")
		w.quiet(gone)
		w.feed.Remove("never there", node)
	})
}

func TestAChannelHasOneHandler(t *testing.T) {
	bubble(t, Options{}, func(w *world) {
		r := w.add("c")
		w.want(r, confirmed...)
		if err := w.feed.Add(ctx, "c", node, &recorder{}); err == nil {
			t.Error("added twice")
		}
		w.publish("c", keys("k"))
		w.want(r, "changed k")
	})
}

// TestARemoveAndAnAddAtOnce: the new handler is confirmed, and the old one told
// nothing more.
func TestARemoveAndAnAddAtOnce(t *testing.T) {
	bubble(t, Options{}, func(w *world) {
		old := w.add("c")
		w.want(old, confirmed...)
		for range 20 {
			w.feed.Remove("c", node)
			r := w.add("c")
			w.want(r, confirmed...)
			w.publish("c", keys("k"))
			w.want(r, "changed k")
			w.quiet(old)
			old = r
		}
	})
}

// TestRemoveIsForItsOwnNode: who could not add a channel cannot remove it.
func TestRemoveIsForItsOwnNode(t *testing.T) {
	bubble(t, Options{}, func(w *world) {
		r := w.add("c")
		w.want(r, confirmed...)
		other := entry.NewNodeID()
		if err := w.feed.Add(ctx, "c", other, &recorder{}); !errors.Is(err, ErrTaken) {
			t.Errorf("added twice: %v", err)
		}
		w.feed.Remove("c", other)
		time.Sleep(time.Minute)
		w.publish("c", keys("k"))
		w.want(r, "changed k")
	})
}

// TestManyAtOnce: however many channels come at once over a slow wire, and whether or
// not those who brought them still wait, all are subscribed.
func TestManyAtOnce(t *testing.T) {
	bubble(t, Options{}, func(w *world) {
		w.wire.Slow(wire.All, 5*time.Millisecond)
		var adding sync.WaitGroup
		recorders := make([]*recorder, 400)
		for i := range recorders {
			recorders[i] = &recorder{}
			adding.Go(func() {
				waits, cancel := context.WithTimeout(ctx, time.Duration(i)*10*time.Microsecond)
				defer cancel()
				w.feed.Add(waits, fmt.Sprint(i), node, recorders[i]) // some are given up
			})
		}
		adding.Wait()
		time.Sleep(time.Second)
		if !w.feed.Up() {
			t.Error("not all are up")
		}
		for _, r := range recorders {
			w.want(r, confirmed...)
		}
	})
}

func TestAddObeysItsContext(t *testing.T) {
	bubble(t, Options{}, func(w *world) {
		w.wire.Down(errors.New("refused"))
		w.wire.Cut(wire.All)
		time.Sleep(time.Second)
		own, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		start := time.Now()
		if err := w.feed.Add(own, "c", node, &recorder{}); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 10*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// TestCloseEndsEverything: the bubble ends only when each goroutine has.
func TestCloseEndsEverything(t *testing.T) {
	for name, before := range map[string]func(w *world){
		"at once":          func(*world) {},
		"subscribed":       func(w *world) { w.add("c") },
		"just cut":         func(w *world) { w.add("c"); w.wire.Cut(wire.All) },
		"dead":             func(w *world) { w.add("c"); w.wire.Numb(wire.All) },
		"away":             func(w *world) { w.wire.Down(net.ErrClosed); w.wire.Cut(wire.All); time.Sleep(time.Minute) },
		"slowly connected": func(w *world) { w.wire.Far(time.Second); w.wire.Cut(wire.All); time.Sleep(1500 * time.Millisecond) },
		"without a client": func(w *world) { w.client.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, func(w *world) {
				before(w)
				w.feed.Close()
				w.feed.Close()
			})
		})
	}
}

func TestOverRealServers(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *redistest.Server{
		"redis":   func(t testing.TB) *redistest.Server { return redistest.Start(t) },
		"cluster": redistest.StartCluster,
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			w := newWorld(t, Options{Timeout: 20 * time.Second}, nil, l1.Options{Addresses: []string{server.Addr}, CommandTimeout: 20 * time.Second},
				func(ctx context.Context, addr string, d *net.Dialer) (net.Conn, error) {
					return d.DialContext(ctx, "tcp", addr)
				})
			a, b := w.add("{}a"), w.add("b")
			w.want(a, confirmed...)
			w.want(b, confirmed...)
			w.publish("{}a", keys("k", "l"))
			w.want(a, "changed k,l")
			w.publish("b", "bad")
			w.want(b, "reset frame")
			for range 2 {
				if n, err := w.raw.Do(ctx, w.raw.B().Arbitrary("CLIENT", "KILL", "TYPE", "pubsub").Build()).AsInt64(); err != nil || n != 1 {
					t.Fatalf("killed %d: %v", n, err)
				}
				w.want(a, slices.Concat(lost, confirmed)...)
				w.want(b, slices.Concat(lost, confirmed)...)
			}
			w.feed.Remove("b", node)
			w.publish("b", keys("x"))
			w.publish("{}a", keys("k"))
			w.want(a, "changed k")
			w.quiet(b)
		})
	}
}

// TestAChannelThatMayNotBeHeard takes no other's messages, and is heard once it may.
func TestAChannelThatMayNotBeHeard(t *testing.T) {
	server := redistest.Start(t)
	server.Do(t, "ACL", "SETUSER", "some", "on", ">secret", "~*", "+@all", "&a", "&cocache:*")
	w := newWorld(t, Options{Heartbeat: 300 * time.Millisecond}, nil,
		l1.Options{Addresses: []string{server.Addr}, Username: "some", Password: "secret", CommandTimeout: 20 * time.Second},
		func(ctx context.Context, addr string, d *net.Dialer) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", server.Addr)
		})
	a := w.add("a")
	w.want(a, confirmed...)
	b := &recorder{}
	brief, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if err := w.feed.Add(brief, "b", node, b); err == nil {
		t.Error("a channel that may not be heard was confirmed")
	}
	time.Sleep(time.Second)
	w.quiet(a)
	w.publish("a", keys("k"))
	w.want(a, "changed k")
	server.Do(t, "ACL", "SETUSER", "some", "&b")
	w.want(b, confirmed...)
	w.publish("b", keys("l"))
	w.want(b, "changed l")
	w.quiet(a)
}

package l1

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/frame"
	"github.com/cocache/cocache/tests/redistest"
	"github.com/cocache/cocache/tests/wire"
	"github.com/redis/rueidis"
)

// sentOver are the names of the commands on the wire since the last Forget, those of
// connections left out.
func sentOver(over *wire.Wire) string {
	var names []string
	for _, c := range over.Sent() {
		switch name := strings.ToUpper(c.Words[0]); name {
		case "HELLO", "CLIENT", "PING", "SUBSCRIBE", "SCRIPT":
		default:
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// A user who may publish for namespaces but not what the probe publishes: writes
// are told all the same, right after the script.
func TestWhereScriptsMayNotPublishWritesAreToldAfter(t *testing.T) {
	server := redistest.Start(t)
	server.Do(t, "ACL", "SETUSER", "after", "on", ">secret", "~*", "+@all", "&"+channelN)
	over := wire.To(server.Addr)
	w := newWorldOver(t, Options{Addresses: []string{server.Addr}, Dial: over.Dial, Username: "after", Password: "secret",
		CommandTimeout: 20 * time.Second}, wire.To(server.Addr).Dial)
	next := w.hear()
	if err := w.a.Join(ctx); err != nil {
		t.Fatal(err)
	}
	next()
	for _, s := range allScripts {
		w.do("SCRIPT", "LOAD", s.source)
	}
	over.Forget()
	w.put("k", value("v"))
	w.invalidate("k", "l")
	if got := sentOver(over); got != "EVALSHA PUBLISH EVALSHA PUBLISH" {
		t.Errorf("sent %s", got)
	}
	for _, keys := range [][]string{{"k"}, {"k", "l"}} {
		if f := next(); !slices.Equal(f.Keys, keys) {
			t.Errorf("told %+v, want %q", f, keys)
		}
	}
	w.life("k", gone)

	server.Do(t, "ACL", "SETUSER", "after", "resetchannels")
	e := w.failed(w.a.Put(ctx, "k", value("v2")), true) // it was done
	if !strings.Contains(e.Error(), "nobody was told") || w.entry("k").Payload != "v2" {
		t.Errorf("%v; the key holds %+v", e, w.entry("k"))
	}
	if err := w.b.Join(ctx); !answered(err) {
		t.Errorf("a node that may not publish at all joined: %v", err)
	}
}

// A write that gets no answer is told at once, because it may have been done, and
// again once it can no longer begin; one that was not sent is not told.
func TestAfterAWriteOfUnknownOutcomeEverybodyIsToldTwice(t *testing.T) {
	bubble(t, Options{}, func(w *world, tap *wire.Wire) {
		w.client.conn.Load().tells = false
		next := w.hear()
		tap.Forget()
		tap.Mute(wire.All, true)
		time.AfterFunc(500*time.Millisecond, func() { tap.Mute(wire.All, false) }) // the answer is lost by then
		began := time.Now()
		w.failed(w.a.Put(ctx, "k", value("v")), true)
		if took := time.Since(began); took != time.Second {
			w.Errorf("the caller waited %v", took)
		}
		number := uint64(0) // of its own each time: who hears the first misses the second if it is lost
		for _, after := range []time.Duration{time.Second, 2 * time.Second} {
			number++
			if f := next(); f.Number != number || !slices.Equal(f.Keys, []string{"k"}) {
				w.Errorf("told %+v", f)
			}
			if took := time.Since(began); took != after {
				w.Errorf("told after %v, want %v", took, after)
			}
		}
	})
}

// announced collects the announcements heard.
func (w *world) announced(next func() frame.Frame, n int) (said []string) {
	w.Helper()
	for range n {
		f := next()
		if f.Announcement == nil {
			w.Fatalf("heard %+v", f)
		}
		a := *f.Announcement
		text := fmt.Sprint(f.Number, " since ", a.Since, " but ", a.Unpublished)
		if a.Steady {
			text += " steady"
		}
		if a.Goodbye {
			text += " goodbye"
		}
		said = append(said, text)
	}
	return said
}

func TestAnnouncements(t *testing.T) {
	bubble(t, Options{}, func(w *world, tap *wire.Wire) {
		first := w.client.Namespace("a", entry.NewNodeID()) // before n: it announces itself steadily
		if err := errors.Join(first.Join(ctx), w.a.Join(ctx)); err != nil {
			w.Fatal(err)
		}
		next := w.hear()
		w.put("k", value("v")) // number 2; the first was Join's
		if f := next(); f.Number != 2 {
			w.Fatalf("heard %+v", f)
		}
		time.Sleep(16 * time.Second)
		want := []string{"2 since 0 but []", "2 since 0 but []", "2 since 0 but []"}
		if got := w.announced(next, 3); !slices.Equal(got, want) {
			w.Errorf("announced %q, want %q", got, want)
		}
		if p := w.client.Pulse(); p == nil || p.Channel != first.Channel() || p.Node != first.node || time.Since(p.At) > 5*time.Second {
			w.Errorf("pulse %+v", p)
		}
		time.Sleep(time.Minute) // nothing more to say
		w.a.sender.Told(w.a.sender.Next(), false)
		first.Leave(ctx)
		time.Sleep(6 * time.Second)
		if got, want := w.announced(next, 1), []string{"3 since 2 but [{3 3}] steady"}; !slices.Equal(got, want) {
			w.Errorf("announced %q, want %q", got, want)
		}
		w.a.Leave(ctx)
		if got, want := w.announced(next, 1), []string{"3 since 2 but [{3 3}] goodbye"}; !slices.Equal(got, want) {
			w.Errorf("announced %q, want %q", got, want)
		}
		tap.Forget()
		time.Sleep(time.Minute)
		if got := sentOver(tap); got != "" {
			w.Errorf("after the goodbye %s", got)
		}
	})
}

// What could not be announced is announced once Redis is back, thrice.
func TestAnnouncementsWaitForRedis(t *testing.T) {
	bubble(t, Options{}, func(w *world, tap *wire.Wire) {
		other := w.client.Namespace("a", entry.NewNodeID())
		if err := errors.Join(other.Join(ctx), w.a.Join(ctx)); err != nil {
			w.Fatal(err)
		}
		next := w.hear()
		tap.Down(errors.New("gone"))
		tap.Cut(wire.All)
		for range 5 {
			w.a.Put(ctx, "k", value("v")) // each fails
		}
		time.Sleep(time.Minute)
		tap.Down(nil)
		time.Sleep(time.Minute)
		if got, want := w.announced(next, 3)[2], "4 since 0 but [{2 4}]"; got != want {
			w.Errorf("at last announced %q, want %q", got, want)
		}
	})
}

// More failures than an announcement can name make everybody reset.
func TestTooManyFailuresAreAnnouncedAsAReset(t *testing.T) {
	bubble(t, Options{}, func(w *world, _ *wire.Wire) {
		if err := w.a.Join(ctx); err != nil {
			w.Fatal(err)
		}
		for range frame.MaxSpans + 1 {
			w.a.sender.Told(w.a.sender.Next(), false)
			w.a.sender.Told(w.a.sender.Next(), true)
		}
		heard := make(chan error, 10)
		conn, cancel := w.raw.Dedicate()
		defer cancel()
		conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
			_, err := frame.Decode(m.Message)
			heard <- err
		}})
		if err := conn.Do(ctx, conn.B().Subscribe().Channel(channelN).Build()).Error(); err != nil {
			w.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if first, second := <-heard, <-heard; !errors.Is(first, frame.ErrBad) || second != nil {
			w.Errorf("heard %v, then %v; want a reset, then an announcement", first, second)
		}
	})
}

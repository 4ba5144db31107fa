package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/frame"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/policy"
	"github.com/cocache/cocache/tests/wire"
)

// Writer order (E).
var writers = []claim{
	{"E1", "an invalidation is one script that deletes and tells", func(w *world) {
		a, told := w.instance(), w.listen()
		w.source.set("k", "v")
		a.want("k", "v")
		a.sends("invalidate", func() { a.drop("k") })
		w.wantHeld("k", "")
		told.want("k")
	}, everywhere},

	{"E1 E4", "a copy that a reader of the writer's own instance makes while the write is on its way goes when it is done", func(w *world) {
		a := w.instance()
		for verb, write := range map[string]func() error{
			"put":        func() error { return a.Put(ctx, "k", []byte("v2"), cache.PutOptions{}) },
			"invalidate": func() error { return a.Invalidate(ctx, "k") },
		} {
			w.source.set("k", "v1")
			writing := a.copyAmid("k", verb, write)
			w.source.set("k", "v2")
			a.wire.Release()
			if err := writing.wait(); err != nil {
				w.Fatalf("%s: %v", verb, err)
			}
			a.want("k", "v2")
		}
	}, everywhere},

	{"E3", "an invalidation of 1,025 keys is three scripts and three messages, all sent before the first is answered", func(w *world) {
		a, told := w.instance(), w.listen()
		keys := make([]string, 1025)
		for i := range keys {
			keys[i] = fmt.Sprint(i)
		}
		a.connect()
		a.wire.Hold(wire.Commands)
		dropping := w.later(func() error { a.drop(keys...); return nil })
		w.until("three scripts are on their way", func() bool { return len(a.sent()) >= 3 })
		a.wire.Release()
		dropping.wait()
		if got := strings.Join(a.sent(), " "); got != "invalidate invalidate invalidate" {
			w.Fatalf("sent %q", got)
		}
		told.want(strings.Join(keys[:512], ","), strings.Join(keys[512:1024], ","), keys[1024])
	}, everywhere},

	{"E4", "a put is one script that overwrites, sets the expiry and tells; it leaves no copy in L2", func(w *world) {
		a, told := w.instance(), w.listen()
		w.source.set("k", "v1")
		w.source.ttl("k", time.Hour)
		a.want("k", "v1")
		a.sends("put", func() { a.put("k", "v2") })
		w.wantHeld("k", "Vv2")
		w.near("the life of what was put", w.life("k"), 10*time.Minute)
		told.want("k")
		a.sends("read", func() { a.want("k", "v2") })
	}, everywhere},

	{"E7", "another's message drops the copy and whatever is being read", func(w *world) {
		a := w.instance()
		w.source.set("there", "v")
		w.source.set("loading", "v")
		a.want("there", "v")
		load := w.hold("loading")
		slow := a.begin("loading")
		load.wait()
		w.publish("there", "loading")
		a.catchesUp()
		load.release()
		if found := slow.want("v"); !found.StoredL1 || found.LocalTTL != 0 {
			w.Fatalf("a read from before the message left %+v", found)
		}
		for _, key := range []string{"there", "loading"} {
			if found := a.get(key); found.Source != cache.FromL1 {
				w.Fatalf("after the message %q came from %v", key, found.Source)
			}
		}
	}, everywhere},

	{"E8", "an instance's own message leaves the copy that was read after its write", func(w *world) {
		node := entry.NewNodeID()
		a := w.instance(as(node))
		a.put("k", "v")
		a.want("k", "v")
		w.publishAs(node, "k") // as if its own came this late
		a.catchesUp()
		a.sends("", func() { a.want("k", "v") })
	}, everywhere},

	{"E9", "a write of unknown outcome that is carried out late drops what was read in between", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.Local.DegradedMaxAge = time.Millisecond }))
		w.source.set("k", "v1")
		a.want("k", "v1")
		a.connect()
		a.wire.Slow(wire.Commands, 600*time.Millisecond)
		putting := w.later(func() error { return a.Put(ctx, "k", []byte("v2"), cache.PutOptions{}) })
		a.isSending("put")
		a.wire.Slow(wire.Commands, 0)
		a.wire.Cut(wire.Commands) // what is on the wire arrives all the same
		w.wantFailed(putting.wait(), true)
		w.until("a copy of what L1 holds", func() bool { return a.get("k").TTL > 0 })
		a.want("k", "v1")
		w.until("the put is carried out, and seen", func() bool { return text(a.get("k")) == "v2" })
	}, everywhere},

	{"E11", "local.max-age after a write of unknown outcome an instance's own messages mean nothing again", func(w *world) {
		node := entry.NewNodeID()
		a := w.instance(as(node))
		a.connect()
		a.wire.Mute(wire.Commands, true)
		w.wantFailed(a.Put(ctx, "k", []byte("v"), cache.PutOptions{}), true)
		a.wire.Mute(wire.Commands, false)
		for _, c := range []struct {
			after time.Duration
			want  cache.Source
		}{{5*time.Minute - time.Second, cache.FromL1}, {time.Second, cache.FromL2}} {
			time.Sleep(c.after)
			a.want("k", "v")
			w.publishAs(node, "k")
			a.catchesUp()
			if found := a.get("k"); found.Source != c.want {
				w.Fatalf("%v later the next read came from %v, want %v", c.after, found.Source, c.want)
			}
		}
	}, virtualTime},

	{"E12", "a reset drops every copy and whatever is being read, of every key", func(w *world) {
		a := w.instance()
		a.resets("manual", a.ClearLocal)
		a.resets("heartbeat", func() { a.wire.Hold(wire.Feed); a.wire.Cut(wire.Feed) })
		a.resets("subscribed", a.wire.Release)
	}, everywhere},

	{"E13 H17", "a copy made while a write was on its way goes though the write failed", func(w *world) {
		a := w.instance()
		w.source.set("k", "v1")
		putting := a.copyAmid("k", "put", func() error { return a.Put(ctx, "k", []byte("v2"), cache.PutOptions{}) })
		w.source.set("k", "v3")
		a.wire.Cut(wire.Commands)
		w.wantFailed(putting.wait(), true)
		a.want("k", "v3")
	}, everywhere},

	{"E15", "where telling fails the write fails, and leaves the key as it was", func(w *world) {
		a := w.instance()
		w.source.set("k", "v1")
		a.want("k", "v1")
		w.do("ACL", "SETUSER", "default", "-publish")
		w.wantFailed(a.Put(ctx, "k", []byte("v2"), cache.PutOptions{}), false)
		w.wantHeld("k", "Vv1")
		if gone := a.InvalidateAll(ctx, []string{"k"})[0]; !gone.Queued {
			w.Fatalf("the invalidation: %+v", gone)
		}
		w.wantHeld("k", "Vv1")
		w.do("ACL", "SETUSER", "default", "+publish")
		w.until("it is tried again", func() bool { return w.holds("k") == "" })
	}, realRedis},

	{"E17", "an invalidation before its change is undone by a miss in between", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v1")
		a.drop("k")
		b.want("k", "v1")
		w.source.set("k", "v2")
		a.want("k", "v1")
		b.want("k", "v1")
		w.near("the life of the old value", w.life("k"), 10*time.Minute)
	}, everywhere},

	{"E19", "a put may name the life of its value", func(w *world) {
		a := w.instance()
		for ttl, want := range map[time.Duration]time.Duration{
			0: 10 * time.Minute, time.Minute: time.Minute, time.Hour: time.Hour, policy.Forever: policy.Forever,
		} {
			if err := a.Put(ctx, "k", []byte("v"), cache.PutOptions{TTL: ttl}); err != nil {
				w.Fatal(err)
			}
			w.near(fmt.Sprint("life of a put with ", ttl), w.life("k"), want)
		}
	}, everywhere},
}

// as makes an instance one that others can pretend to be.
func as(node entry.NodeID) func(*options) { return func(o *options) { o.Node = node } }

// publishAs sends a frame of keys as the given instance would.
func (w *world) publishAs(node entry.NodeID, keys ...string) {
	w.Helper()
	w.do("PUBLISH", l1.DefaultKeyPrefix+"inv:n",
		string(frame.Append(nil, frame.Frame{Sender: node, Number: 1, Keys: keys})))
}

// want waits for the keys of each message there should have been.
func (l *listener) want(keys ...string) {
	l.w.Helper()
	l.w.until("as many messages", func() bool { return len(l.keys()) >= len(keys) })
	if got := l.keys(); !slices.Equal(got, keys) {
		l.w.Fatalf("heard %q, want %q", got, keys)
	}
}

// task is something under way.
type task struct {
	w    *world
	done chan struct{}
	err  error
}

// later does something on its own.
func (w *world) later(do func() error) *task {
	t := &task{w: w, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		t.err = do()
	}()
	return t
}

func (t *task) isDone() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// wait is how it ended; it fails the test when it does not.
func (t *task) wait() error {
	t.w.Helper()
	t.w.until("an end", t.isDone)
	return t.err
}

// isSending waits for a command to be on its way.
func (i *instance) isSending(verb string) {
	i.w.Helper()
	i.w.until(verb+" is on its way", func() bool { return slices.Contains(i.sent(), verb) })
}

// copyAmid begins a write and holds its script on the wire, while a reader of the
// same instance makes a copy. That one reads past L1: on the wire it would stay
// behind the script.
func (i *instance) copyAmid(key, verb string, write func() error) *task {
	i.w.Helper()
	i.connect()
	i.wire.Hold(wire.Commands)
	i.pend(key)
	writing := i.w.later(write)
	i.isSending(verb)
	if found := i.get(key); found.Degraded != cache.PendingInvalidation || found.LocalTTL == 0 {
		i.w.Fatalf("while %s is on its way: %+v", verb, found)
	}
	return writing
}

// pend queues an invalidation that was not sent, because its caller had gone.
func (i *instance) pend(key string) {
	i.w.Helper()
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if o := i.InvalidateAll(gone, []string{key})[0]; !o.Queued {
		i.w.Fatalf("invalidate %q: %+v", key, o)
	}
}

// resets checks that a reset leaves nothing that was read before it.
func (i *instance) resets(cause string, reset func()) {
	i.w.Helper()
	keys := []string{cause + " 1", cause + " 2", cause + " 3"}
	for _, key := range keys {
		i.get(key)
	}
	load := i.w.hold(cause)
	slow := i.begin(cause)
	load.wait()
	before := i.Stats().Resets[cause]
	reset()
	i.w.until("a reset: "+cause, func() bool { return i.get(keys[0]).Source != cache.FromL2 })
	load.release()
	if found, err := slow.wait(); err != nil || found.LocalTTL != 0 {
		i.w.Fatalf("%s: a read from before left %+v, %v", cause, found, err)
	}
	for _, key := range keys[1:] {
		i.w.until("the copy of "+key+" goes", func() bool { return i.get(key).Source != cache.FromL2 })
	}
	if i.Stats().Resets[cause] == before {
		i.w.Fatalf("%s: no reset was counted", cause)
	}
}

// wantFailed checks how a write failed.
func (w *world) wantFailed(err error, unknown bool) {
	w.Helper()
	var failed *cache.WriteError
	if !errors.As(err, &failed) || failed.OutcomeUnknown != unknown {
		w.Fatalf("the write ended with %v (%T), want an error with outcome unknown %v", err, err, unknown)
	}
}

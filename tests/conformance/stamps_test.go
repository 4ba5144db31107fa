package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/channel"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/policy"
	"github.com/cocache/cocache/tests/wire"
)

// L2: invalidation stamps (B).
var stamps = []claim{
	{"B1 B2", "keys share 4,096 stripes: an invalidation costs another key's copy now and then, never its right answer", func(w *world) {
		a := w.instance(func(o *options) { o.Loader = inBatches{w.source} })
		keys := make([]string, 1000)
		for n := range keys {
			keys[n] = fmt.Sprint("k", n)
			w.source.set(keys[n], "v of "+keys[n])
		}
		load := w.hold(keys[0])
		var found []cache.Item
		batch := a.beginWith(func(context.Context) (cache.Lookup, error) {
			found = a.GetAll(ctx, keys)
			return cache.Lookup{}, nil
		})
		load.wait()
		const bumps = 2048
		others := make([]string, bumps)
		for n := range others {
			others[n] = fmt.Sprint("other", n)
		}
		for frame := range slices.Chunk(others, 512) {
			w.publish(frame...)
		}
		a.heard()
		load.release()
		batch.wait()
		lost := 0
		for n, item := range found {
			if item.Err != nil || item.Lookup.Value != "v of "+keys[n] || !item.Lookup.StoredL1 {
				w.Fatalf("%q: %+v", keys[n], item)
			}
			if item.Lookup.LocalTTL == 0 {
				lost++
			}
		}
		// 1 - (1 - 1/4096)^2049 of 1,000; chance moves it by 16.
		if lost < 314 || lost > 474 {
			w.Fatalf("%d of %d copies were lost to %d other keys, want about 394", lost, len(keys), bumps)
		}
		for n, item := range a.GetAll(ctx, keys) {
			if item.Err != nil || item.Lookup.Value != "v of "+keys[n] || item.Lookup.LocalTTL == 0 {
				w.Fatalf("then %q: %+v", keys[n], item)
			}
			if loads := w.source.count(keys[n]); loads != 1 {
				w.Fatalf("%q was loaded %d times", keys[n], loads)
			}
		}
	}, everywhere},

	{"B3", "a read takes its stamp before it reads L1: what is invalidated while the read is on its way costs the copy", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v1")
		b.want("k", "v1")
		var r *reading
		a.heldUp("read", func() { r = a.begin("k") }, func() {
			b.put("k", "v2")
			w.publish("one more") // it is counted when the one before has taken effect
			w.until("a has both messages", func() bool { return a.Stats().Received == 2 })
		})
		if found := r.want("v2"); found.Source != cache.FromL1 || found.LocalTTL != 0 {
			w.Fatalf("a's answer is %+v", found)
		}
		a.sends("read", func() { a.want("k", "v2") })
	}, everywhere},

	{"B4", "one stamp serves the whole read: what is invalidated during the wait for a lease costs the waiter's copy", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v")
		load, slow := a.startLoad("k")
		b.wire.Forget()
		waiter := b.begin("k")
		w.until("b waits", func() bool { return slices.Contains(b.sent(), "read") })
		w.moment()
		w.publish("k")
		b.heard()
		load.release()
		slow.want("v")
		if found := waiter.want("v"); found.Source != cache.FromL1 || found.LocalTTL != 0 {
			w.Fatalf("b's answer is %+v", found)
		}
		b.sends("read", func() { b.want("k", "v") })
	}, everywhere},

	{"B5 B18", "an invalidation during the load costs only L2's copy: the caller has its value, and the next read finds it in L1", func(w *world) {
		a := w.instance()
		w.source.set("k", "v")
		load, slow := a.startLoad("k")
		w.publish("k")
		a.heard()
		load.release()
		if found := slow.want("v"); !found.StoredL1 || found.LocalTTL != 0 {
			w.Fatalf("the answer is %+v", found)
		}
		a.sends("read", func() { a.want("k", "v") })
		a.sends("", func() { a.want("k", "v") })
	}, everywhere},

	{"B6", "no read that begins after an invalidation has returned sees what was there before, however copies and bumps meet", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "0")
		var finished atomic.Int64 // the row whose invalidation has returned
		var readers sync.WaitGroup
		over := make(chan struct{})
		for range 6 {
			readers.Go(func() {
				every(over, 200*time.Microsecond, func() {
					least := finished.Load()
					found, err := a.Get(ctx, "k")
					if row, _ := strconv.ParseInt(found.Value, 10, 64); err != nil || row < least {
						w.Errorf("row %q from %v, %v, after row %d", found.Value, found.Source, err, least)
					}
				})
			})
		}
		readers.Go(func() { every(over, 500*time.Microsecond, func() { _, _ = b.Get(ctx, "k") }) })
		for row := range int64(300) {
			w.source.set("k", fmt.Sprint(row))
			a.drop("k")
			finished.Store(row)
			time.Sleep(time.Millisecond)
		}
		close(over)
		readers.Wait()
	}, everywhere},

	{"B7 B8", "a write evicts before and after its script: a read in between asks L1, and the old copy that it leaves goes", func(w *world) {
		a := w.instance()
		for verb, write := range a.writes() {
			key, r, writing := a.between(verb, write, func(key string) {
				w.source.set(key, "v1")
				a.want(key, "v1")
			}, func(_ string, r *reading) bool { return r.isDone() && r.found.Value == "v1" && r.found.LocalTTL > 0 })
			if found := r.want("v1"); found.Source != cache.FromL1 {
				w.Fatalf("before the %s a answered %+v", verb, found)
			}
			w.source.set(key, "v2")
			if _, err := writing.wait(); err != nil {
				w.Fatal(err)
			}
			a.want(key, "v2")
		}
	}, everywhere},

	{"B8", "a write bumps after its script too: a load that began in between leaves no copy", func(w *world) {
		a := w.instance()
		for verb, write := range a.writes() {
			loads := map[string]*hold{}
			key, r, writing := a.between(verb, write, func(key string) {
				w.source.set(key, "v1")
				loads[key] = w.hold(key)
			}, func(key string, r *reading) bool { return loads[key].isIn() })
			w.source.set(key, "v2")
			if _, err := writing.wait(); err != nil {
				w.Fatal(err)
			}
			loads[key].release()
			if found := r.want("v1"); found.LocalTTL != 0 {
				w.Fatalf("after the %s the old row was kept: %+v", verb, found)
			}
			a.want(key, "v2")
		}
	}, everywhere},

	{"B9", "another instance's message evicts the copy there is, and bumps: a load under way leaves none", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v1")
		b.want("k", "v1")
		w.source.set("k", "v2")
		a.drop("k")
		b.heard()
		load, slow := b.startLoad("k")
		w.source.set("k", "v3")
		a.drop("k")
		b.heard()
		load.release()
		if found := slow.want("v2"); found.LocalTTL != 0 {
			w.Fatalf("the old row was kept: %+v", found)
		}
		b.want("k", "v3")
	}, everywhere},

	{"B10", "until the message arrives another instance may answer with its copy, and then no longer", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("late-key", "v1")
		b.want("late-key", "v1")
		w.source.set("late-key", "v2")
		b.wire.Lose("late-key")
		a.drop("late-key")
		b.heard()
		b.sends("", func() { b.want("late-key", "v1") })
		w.publish("late-key")
		b.heard()
		b.want("late-key", "v2")
	}, everywhere},

	{"B11 B13", "a put leaves no copy: the first read after it asks L1, the second does not", func(w *world) {
		a := w.instance()
		a.sends("put read", func() {
			a.put("k", "v")
			a.want("k", "v")
			a.want("k", "v")
		})
	}, everywhere},

	{"B12", "after two puts at once L2 has what L1 has", func(w *world) {
		a := w.instance()
		for round := range 300 {
			var writers sync.WaitGroup
			for n := range 2 {
				writers.Go(func() {
					if err := a.Put(ctx, "k", []byte(fmt.Sprint(round, " ", n)), cache.PutOptions{}); err != nil {
						w.Error(err)
					}
				})
			}
			writers.Wait()
			for range 2 {
				if found := a.get("k"); "V"+found.Value != w.holds("k") {
					w.Fatalf("%s has %q, redis holds %q", found.Source, found.Value, w.holds("k"))
				}
			}
		}
	}, everywhere},

	{"B14", "a degraded copy is fenced as any other", func(w *world) {
		a := w.instance()
		w.source.set("k", "v1")
		load := w.hold("k")
		a.wire.Down(errors.New("away"))
		a.wire.Cut(wire.Commands)
		slow := a.begin("k")
		load.wait()
		w.source.set("k", "v2")
		a.ClearLocal()
		load.release()
		if found := slow.want("v1"); found.Degraded != cache.RedisDown || found.LocalTTL != 0 {
			w.Fatalf("the answer is %+v", found)
		}
		if found := a.get("k"); found.Value != "v2" || found.Degraded != cache.RedisDown || found.LocalTTL == 0 {
			w.Fatalf("then the answer is %+v", found)
		}
		a.wire.Down(nil)
	}, everywhere},

	{"B15", "a reset drops every copy, and what is being loaded leaves none", func(w *world) {
		a := w.instance()
		a.want("other", "absent")
		w.source.set("k", "v")
		load, slow := a.startLoad("k")
		w.do("PUBLISH", l1.DefaultKeyPrefix+"inv:n", "no frame")
		w.until("the other copy is gone", func() bool { return a.get("other").Source != cache.FromL2 })
		load.release()
		if found := slow.want("v"); !found.StoredL1 || found.LocalTTL != 0 {
			w.Fatalf("the answer is %+v", found)
		}
		a.sends("read", func() { a.want("k", "v") })
	}, everywhere},

	{"B16", "clearing the local tier drops this instance's copies, made or in the making, and touches neither L1 nor others", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v")
		a.want("k", "v")
		b.want("k", "v")
		load, slow := a.startLoad("slow")
		a.sends("", a.ClearLocal)
		load.release()
		if found := slow.want("absent"); !found.StoredL1 || found.LocalTTL != 0 {
			w.Fatalf("the load's answer is %+v", found)
		}
		a.sends("read", func() { a.want("k", "v") })
		b.sends("", func() { b.want("k", "v") })
		if loads := w.source.count("k"); loads != 1 {
			w.Fatalf("%d loads", loads)
		}
	}, everywhere},

	{"B17", "an invalidation that succeeds in the background evicts once more", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.Local.DegradedMaxAge = time.Hour }))
		w.source.set("k", "v1")
		a.want("k", "v1")
		w.source.set("k", "v2")
		a.connect()
		a.wire.Hold(wire.Commands) // the next try
		a.pend("k")
		if found := a.get("k"); found.Value != "v2" || found.LocalTTL == 0 || found.TTL != 0 {
			w.Fatalf("meanwhile the answer is %+v", found)
		}
		w.source.set("k", "v3") // which nobody tells
		a.want("k", "v2")
		a.wire.Release()
		w.until("the invalidation succeeds", func() bool { return a.Stats().Pending == 0 })
		w.until("that copy is gone", func() bool { return text(a.get("k")) == "v3" })
	}, everywhere},

	{"B19", "a reset concerns the namespace of its channel alone", func(w *world) {
		n, other := w.neighbours("n", "other")
		n.want("k", "absent")
		other.want("k", "absent")
		w.do("PUBLISH", l1.DefaultKeyPrefix+"inv:n", "no frame")
		w.until("n is reset", func() bool { return n.get("k").Source != cache.FromL2 })
		other.sends("", func() { other.want("k", "absent") })
		if resets := other.Stats().Resets[string(channel.BadFrame)]; resets != 0 {
			w.Fatalf("the other namespace was reset %d times", resets)
		}
	}, everywhere},
}

// writes are those of an instance, by the verb of their script; a put writes v2.
func (i *instance) writes() map[string]func(ctx context.Context, key string) error {
	return map[string]func(ctx context.Context, key string) error{
		"put": func(ctx context.Context, key string) error {
			return i.Put(ctx, key, []byte("v2"), cache.PutOptions{})
		},
		"invalidate": i.Invalidate,
	}
}

// between begins a write of a key after prepare, and a read of the key which overtakes
// the write's script, as got tells. They overtake where the client sends them over two
// of its connections; so it tries, each time with another key.
func (i *instance) between(verb string, write func(context.Context, string) error, prepare func(key string),
	got func(key string, r *reading) bool) (key string, r, writing *reading) {
	i.w.Helper()
	const delay = 100 * time.Millisecond
	i.connect()
	for try := range 40 {
		key = fmt.Sprint(verb, try)
		prepare(key)
		i.wire.Forget()
		began := time.Now()
		i.wire.Slow(wire.Commands, delay)
		writing = i.beginWith(func(ctx context.Context) (cache.Lookup, error) { return cache.Lookup{}, write(ctx, key) })
		i.w.until("the script is on its way", func() bool { return slices.Contains(i.sent(), verb) })
		i.wire.Slow(wire.Commands, 0)
		r = i.begin(key)
		i.w.until("an answer", func() bool { return got(key, r) || r.isDone() && writing.isDone() })
		if got(key, r) && time.Since(began) < delay { // the script has not arrived yet
			return key, r, writing
		}
	}
	i.w.Skip("the client has one connection: nothing overtakes")
	return "", nil, nil
}

// neighbours are two namespaces of one process, on the same connections.
func (w *world) neighbours(first, second string) (a, b *instance) {
	w.Helper()
	over, log := w.wire(), &logbook{}
	client := l1.Open(l1.Options{Addresses: []string{"wire"}, Dial: over.Dial, Logger: slog.New(log)})
	feed := channel.Open(client, channel.Options{Logger: slog.New(log)})
	w.Cleanup(func() { feed.Close(); client.Close() })
	open := func(name string) *instance {
		node := entry.NewNodeID()
		c, err := cache.New(ctx, cache.Options{Name: name, Loader: w.source, Node: node, Logger: slog.New(log), Feed: feed,
			L1: client.Namespace(name, node), Policy: policy.Policy{Codec: policy.String}})
		if err != nil {
			w.Fatal(err)
		}
		closeIt := sync.OnceFunc(func() { c.Close(ctx) })
		w.Cleanup(closeIt)
		return &instance{Cache: c, w: w, name: name, prefix: l1.DefaultKeyPrefix, wire: over, log: log, close: closeIt}
	}
	return open(first), open(second)
}

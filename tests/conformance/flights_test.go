package conformance

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/runtime/policy"
	"github.com/cocache/cocache/tests/wire"
)

// Flights and reading one's own writes (C).
var flights = []claim{
	{"C1 C2", "a thousand readers of one key cost one load, and each gets what it brought", func(w *world) {
		a := w.instance()
		w.source.set("k", "v")
		load := w.hold("k")
		crowd := a.beginMany(1000, "k")
		load.wait()
		a.untilWaiting(1000)
		load.release()
		for _, r := range crowd {
			r.want("v")
		}
		w.wantLoads("k", 1)
	}, everywhere},

	{"C3", "every reader gets the very error that the loader returned", func(w *world) {
		a := w.instance()
		failure := &loader.Error{Kind: loader.Retry, Code: "busy", After: time.Minute}
		w.source.fail("k", failure)
		load := w.hold("k")
		crowd := a.beginMany(10, "k")
		load.wait()
		a.untilWaiting(10)
		load.release()
		for _, r := range crowd {
			if _, err := r.wait(); err != failure {
				w.Fatalf("got %v", err)
			}
		}
		w.wantLoads("k", 1)
	}, everywhere},

	{"C4", "a leader that leaves, while L1 is asked or while the loader runs, is the only one to notice", func(w *world) {
		a := w.instance()
		for key, begun := range map[string]bool{"asking": false, "loading": true} {
			w.source.set(key, "v")
			load := w.hold(key)
			a.connect()
			if !begun {
				a.wire.Hold(wire.Commands)
			}
			leader := a.begin(key)
			w.until("the read is sent", func() bool { return a.sentOn(key, "read") == 1 })
			if begun {
				load.wait()
			}
			waiter := a.begin(key)
			a.untilWaiting(2)
			leader.cancel()
			leader.wantCanceled()
			a.wire.Release()
			load.wait()
			load.release()
			if found := waiter.want("v"); !found.Joined || !found.StoredL1 {
				w.Errorf("%s: the waiter got %+v", key, found)
			}
		}
	}, everywhere},

	{"C5", "a waiter that leaves ends its own wait only", func(w *world) {
		a := w.instance()
		w.source.set("k", "v")
		load := w.hold("k")
		leader := a.begin("k")
		load.wait()
		leaves, stays := a.begin("k"), a.begin("k")
		a.untilWaiting(3)
		leaves.cancel()
		leaves.wantCanceled()
		load.release()
		leader.want("v")
		stays.want("v")
		w.wantLoads("k", 1)
	}, everywhere},

	{"C6 C7", "those who wait give up at loads.timeout, counted from the load's start: who joined late waits less", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.Loads.Timeout = 800 * time.Millisecond }))
		load := w.deaf("k")
		began := time.Now()
		leader := a.begin("k")
		load.wait()
		early := a.begin("k")
		time.Sleep(500 * time.Millisecond)
		joined := time.Now()
		late := a.begin("k")
		early.wantOverdue()
		if took := time.Since(began); took < 800*time.Millisecond {
			w.Errorf("the first gave up after %v", took)
		}
		late.wantOverdue()
		if took := time.Since(joined); took >= 800*time.Millisecond || w.virtual && took > 310*time.Millisecond {
			w.Errorf("the late one gave up after %v", took)
		}
		w.wantLoads("k", 1)
		load.release()
		leader.wait()
	}, everywhere},

	{"C8 C9", "who comes after that starts another load; what the first brings in the end is its own caller's alone", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.Loads.Timeout = 200 * time.Millisecond }))
		w.source.set("k", "v1")
		load := w.deaf("k")
		leader := a.begin("k")
		load.wait()
		a.begin("k").wantOverdue()
		w.source.set("k", "v2")
		a.want("k", "v2")
		w.wantHeld("k", "Vv2")
		w.wantLoads("k", 2)
		if n := a.Stats().LoadsInFlight; n != 1 {
			w.Errorf("%d loads under way, want the first", n)
		}
		load.release()
		if found := leader.want("v1"); found.TTL != 0 || found.LocalTTL != 0 {
			w.Errorf("the late value is kept: %+v", found)
		}
		a.want("k", "v2")
		w.wantHeld("k", "Vv2")
	}, everywhere},

	{"C10", "a loader that asks for a key which its own chain of loads is loading is told at once, and the leases go back", func(w *world) {
		var a *instance
		asks := map[string]string{"self": "self", "k1": "k2", "k2": "k1"}
		a = w.instance(func(o *options) {
			o.Loader = loader.Func(func(ctx context.Context, req loader.Request) (loader.Result, error) {
				_, err := a.Get(ctx, asks[req.Key])
				return loader.Result{}, err
			})
		})
		began := time.Now()
		for _, key := range []string{"self", "k1"} {
			if _, err := a.Get(ctx, key); !errors.Is(err, cache.ErrRecursion) {
				w.Errorf("%s: %v", key, err)
			}
		}
		if took := time.Since(began); took > time.Second {
			w.Errorf("it took %v", took)
		}
		for key := range asks {
			w.wantHeld(key, "")
		}
	}, everywhere},

	{"C11", "a read after an invalidation does not wait for a load from before it", func(w *world) {
		a := w.instance()
		w.source.set("k", "v1")
		load := w.hold("k")
		old := a.begin("k")
		load.wait()
		w.source.set("k", "v2")
		a.drop("k")
		if found := a.get("k"); found.Value != "v2" || !found.StoredL1 {
			w.Errorf("got %+v", found)
		}
		load.release()
		old.want("v1")
		a.want("k", "v2")
		w.wantHeld("k", "Vv2")
	}, everywhere},

	{"C12", "in any order of things an instance answers with its own last write, or a later one", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "0")
		var written atomic.Int64
		var done atomic.Bool
		var readers sync.WaitGroup
		for n := range 4 {
			readers.Go(func() {
				for !done.Load() {
					least := written.Load()
					found, err := a.Get(ctx, "k")
					if got, _ := strconv.ParseInt(found.Value, 10, 64); err != nil || got < least {
						w.Errorf("got %q, %v after the write of %d", found.Value, err, least)
						return
					}
					if n == 0 {
						b.Get(ctx, "k") // another instance fills as well
					}
					runtime.Gosched()
				}
			})
		}
		for n := int64(1); n <= 300; n++ {
			value := strconv.FormatInt(n, 10)
			w.source.set("k", value)
			if n%3 == 0 {
				a.put("k", value)
			} else {
				a.drop("k")
			}
			written.Store(n)
			runtime.Gosched()
		}
		done.Store(true)
		readers.Wait()
	}, everywhere},

	{"C13", "who was woken by a flight's answer does not join that flight again", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.Local.Disabled = true }))
		w.source.set("k", "v")
		for range 10 {
			w.do("DEL", at("k"))
			load := w.hold("k")
			var readers sync.WaitGroup
			for range 1000 {
				readers.Go(func() {
					a.Get(ctx, "k")
					if found, err := a.Get(ctx, "k"); found.Source != cache.FromL1 {
						w.Errorf("the second read got %+v, %v", found, err)
					}
				})
			}
			load.wait()
			a.untilWaiting(1000)
			load.release()
			readers.Wait()
		}
	}, everywhere},

	{"C14", "a thousand readers who come after an invalidation cost one more load, not two", func(w *world) {
		a := w.instance()
		w.source.set("k", "v1")
		before := w.hold("k")
		old := a.begin("k")
		before.wait()
		w.source.set("k", "v2")
		a.drop("k")
		after := w.hold("k")
		crowd := a.beginMany(1000, "k")
		after.wait()
		a.untilWaiting(1001)
		before.release() // brings the outdated answer while they wait
		old.want("v1")
		after.release()
		for _, r := range crowd {
			r.want("v2")
		}
		w.wantLoads("k", 2)
	}, everywhere},

	{"C15", "a batch brings home the keys that it leads while it waits for another's, so crossed batches end", func(w *world) {
		a := w.instance(batching(w))
		w.source.set("k1", "1")
		w.source.set("k2", "2")
		load := w.hold("k2")
		other := a.begin("k2")
		load.wait()
		batch := a.beginAll("k2", "k1")
		w.until("k1 is filled", func() bool { return w.holds("k1") == "V1" })
		if batch.isDone() {
			w.Error("the batch did not wait for the flight of another")
		}
		load.release()
		other.want("2")
		batch.want("2 1")
		for range 100 {
			a.drop("k1", "k2")
			there, back := a.beginAll("k1", "k2"), a.beginAll("k2", "k1")
			there.want("1 2")
			back.want("2 1")
		}
	}, everywhere},

	{"C16", "readers share a load within an instance; where no lease can be had each instance loads", func(w *world) {
		w.do("SET", at("k"), laterFormat)
		w.source.set("k", "v")
		var crowd []*reading
		var loads []*hold
		for range 3 {
			i := w.instance()
			load := w.hold("k")
			crowd = append(crowd, i.beginMany(10, "k")...)
			load.wait()
			i.untilWaiting(10)
			loads = append(loads, load)
		}
		for _, load := range loads {
			load.release()
		}
		for _, r := range crowd {
			r.want("v")
		}
		w.wantLoads("k", 3)
	}, everywhere},

	{"C17", "a reader with its own loader takes no answer from a reader without one", func(w *world) {
		for key, reason := range map[string]cache.Reason{"there": cache.NotDegraded, "away": cache.RedisDown} {
			w.source.set(key, "own")
			a := w.instance(external)
			a.connect()
			a.wire.Hold(wire.Commands)
			leader := a.begin(key)
			w.until("the read is sent", func() bool { return a.sentOn(key, "read") == 1 })
			joined := a.beginWith(func(ctx context.Context) (cache.Lookup, error) { return a.GetWith(ctx, key, w.source) })
			a.untilWaiting(2)
			if reason == cache.RedisDown {
				a.loseRedis()
				leader.want("error")
			} else {
				a.wire.Release()
				leader.want("unpopulated")
			}
			if found := joined.want("own"); found.Source != cache.FromLoader || found.Degraded != reason {
				w.Errorf("redis %s: %+v", key, found)
			}
		}
	}, everywhere},

	{"C18", "a loader that reads its own key, or two that read each other's, behind the runtime's back end at loads.timeout", func(w *world) {
		var a *instance
		asks := map[string]string{"self": "self", "k1": "k2", "k2": "k1"}
		a = w.instance(func(o *options) {
			o.Policy.Loads.Timeout = 300 * time.Millisecond
			o.Loader = loader.Func(func(_ context.Context, req loader.Request) (loader.Result, error) {
				_, err := a.Get(ctx, asks[req.Key]) // not with the load's own context
				return loader.Result{}, err
			})
		})
		self, crossed := a.begin("self"), a.begin("k1")
		self.wantOverdue()
		crossed.wantOverdue()
		for key := range asks {
			w.until("the leases went back", func() bool { return w.holds(key) == "" })
		}
	}, everywhere},
}

// beginMany starts n reads of one key.
func (i *instance) beginMany(n int, key string) []*reading {
	crowd := make([]*reading, n)
	for j := range crowd {
		crowd[j] = i.begin(key)
	}
	return crowd
}

// untilWaiting waits until n callers of an instance wait for flights.
func (i *instance) untilWaiting(n int) {
	i.w.Helper()
	i.w.until("all readers wait", func() bool { return i.Stats().Waiters == n })
}

func (w *world) wantLoads(key string, want int) {
	w.Helper()
	if n := w.source.count(key); n != want {
		w.Fatalf("%d loads of %q, want %d", n, key, want)
	}
}

func (r *reading) wantCanceled() {
	r.w.Helper()
	if _, err := r.wait(); !errors.Is(err, context.Canceled) {
		r.w.Fatalf("the reader that left got %v", err)
	}
}

func (r *reading) wantOverdue() {
	r.w.Helper()
	_, err := r.wait()
	var overdue *cache.LoadTimeoutError
	if !errors.As(err, &overdue) {
		r.w.Fatalf("got %v, want a load timeout", err)
	}
}

// deaf makes the next load of a key stand in a hold, heedless of its context;
// later ones do not. It replaces what runs in each load.
func (w *world) deaf(key string) *hold {
	h := &hold{w: w, entered: make(chan struct{}), gate: make(chan struct{})}
	h.release = sync.OnceFunc(func() { close(h.gate) })
	w.Cleanup(h.release)
	var taken atomic.Bool
	w.source.inLoad(func(_ context.Context, asked string) {
		if asked == key && taken.CompareAndSwap(false, true) {
			close(h.entered)
			<-h.gate
		}
	})
	return h
}

// loseRedis takes Redis away from an instance: connections are cut and no new
// one is made.
func (i *instance) loseRedis() {
	i.wire.Down(errors.New("redis is away"))
	i.wire.Cut(wire.All)
	i.wire.Release()
}

package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/policy"
)

// Refresh ahead (G).
var refreshes = []claim{
	{"G1", "without a refresh-window nothing is refreshed: hits send nothing until the value ends", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.TTL = 300 * time.Millisecond }))
		w.source.set("k", "v")
		w.know()
		a.want("k", "v")
		misses := 1
		w.until("the value ends", func() bool {
			found := a.get("k")
			if found.Source != cache.FromL2 {
				misses++
			}
			return found.Source == cache.FromLoader
		})
		if n := len(a.readsOf("k")); n != misses {
			w.Errorf("%d reads of L1 for %d misses", n, misses)
		}
		if p := a.Policy(); p.RefreshWindow != policy.Off {
			w.Errorf("the default is %v", p.RefreshWindow)
		}
	}, everywhere},

	{"G2", "a copy notes when its original enters the window: the first hit after that starts a refresh, none before", func(w *world) {
		a := w.instance(refreshing(800*time.Millisecond, 500*time.Millisecond))
		w.source.set("k", "v1")
		w.know()
		began := time.Now()
		a.want("k", "v1")
		w.source.set("k", "v2")
		w.until("the value is refreshed", func() bool { return text(a.get("k")) == "v2" })
		if at := a.readsOf("k")[1].Sub(began); at < 300*time.Millisecond || w.virtual && at > 302*time.Millisecond {
			w.Errorf("refreshed after %v", at)
		}
	}, everywhere},

	{"G3 G4", "hits in the window are answered from the copy, and a thousand of them start one refresh", func(w *world) {
		a := w.instance(soon)
		w.source.set("k", "v1")
		a.want("k", "v1")
		w.source.set("k", "v2")
		load := w.hold("k")
		time.Sleep(500 * time.Millisecond) // the value is in its window by then
		a.sends("read", func() {
			for range 1000 {
				if found := a.get("k"); found.Value != "v1" || found.Source != cache.FromL2 {
					w.Fatalf("got %+v", found)
				}
			}
			load.wait()
			w.moment()
			a.want("k", "v1")
		})
		load.release()
		w.until("the refreshed value", func() bool { return text(a.get("k")) == "v2" })
		w.wantLoads("k", 2)
	}, everywhere},

	{"G5", "Redis gives one token at a time, and none for a value outside the window", func(w *world) {
		a, b := w.instance(soon), w.instance(soon)
		load := a.untilRefreshing("k", b)
		b.untilAsked("k")
		w.wantLoads("k", 2) // the token is a's
		load.release()
		w.until("a has filled", func() bool { return w.holds("k") == "Vv2" })
		w.source.set("k", "v3")
		w.until("b takes over what L1 holds", func() bool { return text(b.get("k")) == "v2" })
		w.wantLoads("k", 2) // the new value is outside the window
	}, everywhere},

	{"G6", "one instance of the cluster reloads, the others take over what it filled", func(w *world) {
		var cluster []*instance
		for range 5 {
			cluster = append(cluster, w.instance(soon))
		}
		w.source.set("k", "v1")
		for _, i := range cluster {
			i.want("k", "v1")
		}
		w.source.set("k", "v2")
		w.until("all have the refreshed value", func() bool {
			stale := slices.ContainsFunc(cluster, func(i *instance) bool {
				found := i.get("k")
				if found.Source != cache.FromL2 {
					w.Fatalf("a miss: %+v", found)
				}
				return found.Value != "v2"
			})
			return !stale
		})
		w.wantLoads("k", 2)
	}, everywhere},

	{"G7", "an invalidation or a put while a refresh loads keeps its value out of L1", func(w *world) {
		a, b := w.instance(soon), w.instance()
		for key, held := range map[string]string{"dropped": "", "put": "Vv3"} {
			load := a.untilRefreshing(key)
			if held == "" {
				b.drop(key)
			} else {
				b.put(key, "v3")
			}
			load.release()
			a.untilIdle()
			w.wantHeld(key, held)
		}
	}, everywhere},

	{"G8 G14", "who looks again and finds the token older than lease-ttl takes it over, before the value ends", func(w *world) {
		dies := func(o *options) { o.Policy.LeaseTTL = 300 * time.Millisecond }
		a, b := w.instance(soon, dies), w.instance(soon, dies)
		load := a.untilRefreshing("k", b)
		w.source.set("k", "v3")
		w.until("b has refreshed", func() bool {
			found := b.get("k")
			if found.Source != cache.FromL2 {
				w.Fatalf("a miss: %+v", found)
			}
			return found.Value == "v3"
		})
		w.wantHeld("k", "Vv3")
		w.wantLoads("k", 3)
		load.release() // too late
		a.untilIdle()
		w.wantHeld("k", "Vv3")
	}, everywhere},

	{"G9", "a refresh that fails, or finds no place, is logged only: the value ends when it would have, then it is loaded", func(w *world) {
		for key, fault := range map[string]func(a *instance) (mend func()){
			"fails": func(*instance) func() {
				w.source.fail("fails", errors.New("boom"))
				return func() { w.source.fail("fails", nil) }
			},
			"no place": func(a *instance) func() {
				load := w.hold("other")
				a.begin("other")
				load.wait()
				return load.release
			},
		} {
			a := w.instance(refreshing(600*time.Millisecond, 500*time.Millisecond), func(o *options) { o.Policy.Loads.MaxConcurrent = 1 })
			w.source.set(key, "v1")
			began := time.Now()
			a.want(key, "v1")
			w.source.set(key, "v2")
			mend := fault(a)
			w.until("the refresh has failed", func() bool {
				if found := a.get(key); found.Value != "v1" || found.Source != cache.FromL2 {
					w.Fatalf("%s: %+v", key, found)
				}
				return a.log.count("refresh failed") > 0
			})
			w.until("the value ends", func() bool { return w.life(key) == 0 })
			if lived := time.Since(began); lived < 598*time.Millisecond {
				w.Errorf("%s: the value lived for %v", key, lived)
			}
			w.moment()
			mend()
			if found := a.get(key); found.Value != "v2" || found.Source != cache.FromLoader {
				w.Errorf("%s: then %+v", key, found)
			}
		}
	}, everywhere},

	{"G10 G12", "without the token the next look is after lease-wait or half the rest, whichever is sooner, so always before the end", func(w *world) {
		wait := func(o *options) { o.Policy.LeaseWait = time.Second }
		a, b := w.instance(refreshing(8*time.Second, 4*time.Second), wait), w.instance(refreshing(8*time.Second, 4*time.Second), wait)
		a.untilRefreshing("k", b)
		w.know()
		b.wire.Forget()
		began := time.Now()
		var looks []time.Duration
		for len(looks) < 8 {
			if found := b.get("k"); found.Value != "v1" || found.Source != cache.FromL2 {
				w.Fatalf("got %+v", found)
			}
			time.Sleep(time.Millisecond)
			looks = nil
			for _, at := range b.readsOf("k") {
				looks = append(looks, at.Sub(began))
			}
		}
		rest := 4 * time.Second
		for n, at := range looks {
			if want := 4*time.Second - rest; at < want-20*time.Millisecond || at > want+20*time.Millisecond {
				w.Errorf("look %d after %v, want %v", n, at, want)
			}
			rest -= min(time.Second, rest/2)
		}
	}, virtualTime},

	{"G11", "hits do not poll Redis while another instance's refresh hangs", func(w *world) {
		a, b := w.instance(soon), w.instance(soon)
		a.untilRefreshing("k", b)
		began := time.Now()
		b.wire.Forget()
		for range 400 {
			b.want("k", "v1")
			time.Sleep(time.Millisecond)
		}
		if n, most := len(b.readsOf("k")), int(time.Since(began)/(100*time.Millisecond))+1; n < 1 || n > most {
			w.Errorf("%d looks for 400 hits, want 1 to %d", n, most)
		}
	}, everywhere},

	{"G13", "a refresh tells nobody: others find its value at their next look, without a miss", func(w *world) {
		heard := w.listen()
		a, b := w.instance(soon), w.instance(soon)
		load := a.untilRefreshing("k", b)
		b.untilAsked("k")
		load.release()
		w.until("b has the refreshed value", func() bool {
			found := b.get("k")
			if found.Source != cache.FromL2 {
				w.Fatalf("a miss: %+v", found)
			}
			return found.Value == "v2"
		})
		w.publish("end")
		w.until("the end is heard", func() bool { return len(heard.keys()) > 0 })
		if got := heard.keys(); !slices.Equal(got, []string{"end"}) {
			w.Errorf("heard %q", got)
		}
	}, everywhere},

	{"G15", "a copy that begins inside the window is not refreshed: from L1, from a load, or past L1", func(w *world) {
		a := w.instance(refreshing(800*time.Millisecond, 700*time.Millisecond))
		other := w.instance()
		w.do("SET", at("past"), laterFormat)
		keys := []string{"l1", "load", "past"}
		for _, key := range keys {
			w.source.set(key, "v1")
			w.source.ttl(key, 500*time.Millisecond)
		}
		other.want("l1", "v1")
		for _, key := range keys {
			a.want(key, "v1")
			w.source.set(key, "v2")
		}
		for _, key := range keys {
			if found := a.untilFrom(cache.FromLoader, key); found.Value != "v2" {
				w.Errorf("%s: %+v", key, found)
			}
			w.wantLoads(key, 2)
		}
		w.wantRefreshes(0)
	}, everywhere},

	{"G16", "so a value whose whole life is within the window costs one load per life, whatever its hits", func(w *world) {
		a := w.instance(soon)
		w.source.set("k", "v")
		w.source.ttl("k", 200*time.Millisecond)
		began := time.Now()
		for range 500 {
			a.want("k", "v")
			time.Sleep(time.Millisecond)
		}
		if n, most := w.source.count("k"), int(time.Since(began)/(200*time.Millisecond))+1; n < 2 || n > most {
			w.Errorf("%d loads, want 2 to %d", n, most)
		}
		w.wantRefreshes(0)
	}, everywhere},

	{"G17", "so does a value put for no longer than the window", func(w *world) {
		a := w.instance(soon)
		if err := a.Put(ctx, "k", []byte("put"), cache.PutOptions{TTL: 300 * time.Millisecond}); err != nil {
			w.Fatal(err)
		}
		a.want("k", "put")
		if found := a.untilFrom(cache.FromLoader, "k"); found.Kind != cache.Absent {
			w.Errorf("after its end: %+v", found)
		}
		w.wantLoads("k", 1)
		w.wantRefreshes(0)
	}, everywhere},

	{"G18", "the fill clears the token: the next window has a refresh of its own, however long lease-ttl is", func(w *world) {
		a := w.instance(soon)
		load := a.untilRefreshing("k")
		load.release()
		for _, value := range []string{"v2", "v3"} {
			w.source.set("k", value)
			w.until("the refreshed value", func() bool {
				found := a.get("k")
				if found.Source != cache.FromL2 {
					w.Fatalf("a miss: %+v", found)
				}
				return found.Value == value
			})
		}
	}, everywhere},

	{"G19", "a refresh is fenced in L2, and takes one of the places of loads", func(w *world) {
		a := w.instance(soon, func(o *options) { o.Policy.Loads.MaxConcurrent, o.Policy.Loads.MaxQueued = 1, policy.NoQueue })
		load := a.untilRefreshing("k")
		_, err := a.Get(ctx, "other")
		var overloaded *cache.OverloadedError
		if !errors.As(err, &overloaded) {
			w.Errorf("another load: %v", err)
		}
		w.source.set("k", "v3")
		a.drop("k")
		load.release()
		a.untilIdle()
		a.want("k", "v3")
		w.wantHeld("k", "Vv3")
	}, everywhere},

	{"G20", "a loader is told that a refresh has no reader, and sees none of a reader's context", func(w *world) {
		a := w.instance(soon)
		type trace struct{}
		traced, cancel := context.WithTimeout(context.WithValue(ctx, trace{}, "t1"), time.Minute)
		defer cancel()
		w.source.set("k", "v1")
		a.Get(traced, "k")
		if req, seen := w.source.last(); req.Background || seen.Value(trace{}) != "t1" {
			w.Errorf("a load: background %t, trace %v", req.Background, seen.Value(trace{}))
		}
		load := w.hold("k")
		w.until("the refresh loads", func() bool {
			a.Get(traced, "k")
			return load.isIn()
		})
		cancel()
		w.moment()
		req, seen := w.source.last()
		if !req.Background || seen.Value(trace{}) != nil || seen.Err() != nil {
			w.Errorf("a refresh: background %t, trace %v, %v", req.Background, seen.Value(trace{}), seen.Err())
		}
		load.release()
	}, everywhere},
}

// refreshing is the policy of an instance that looks again after 100 ms.
func refreshing(ttl, window time.Duration) func(*options) {
	return with(func(p *policy.Policy) { p.TTL, p.RefreshWindow, p.LeaseWait = ttl, window, policy.Off })
}

// soon has values refreshed 400 ms after they were filled, and long before they
// end.
func soon(o *options) { refreshing(10*time.Second, 9600*time.Millisecond)(o) }

// untilRefreshing loads v1 under a key, commits v2, and reads until the refresh
// that brings v2 stands in the hold. Others have a copy of v1 then.
func (i *instance) untilRefreshing(key string, others ...*instance) *hold {
	i.w.Helper()
	i.w.source.set(key, "v1")
	i.want(key, "v1")
	for _, other := range others {
		other.want(key, "v1")
	}
	i.w.source.set(key, "v2")
	load := i.w.hold(key)
	i.w.until("the refresh loads", func() bool {
		i.want(key, "v1")
		return load.isIn()
	})
	return load
}

// untilAsked reads until the instance has asked L1 once more.
func (i *instance) untilAsked(key string) {
	i.w.Helper()
	before := len(i.readsOf(key))
	i.w.until("L1 is asked", func() bool {
		i.want(key, "v1")
		return len(i.readsOf(key)) > before
	})
}

// untilIdle waits until an instance has filled, or failed to, what it loaded.
func (i *instance) untilIdle() {
	i.w.Helper()
	i.w.until("the load is over", func() bool { return i.Stats().LoadsInFlight == 0 })
}

// readsOf is when an instance read a key in L1.
func (i *instance) readsOf(key string) (times []time.Time) {
	for _, c := range i.wire.Sent() {
		if c.Is("EVALSHA") && verbOf(c.Words[1]) == "read" && c.Words[3] == at(key) {
			times = append(times, c.At)
		}
	}
	return times
}

// wantRefreshes checks how many loads had no reader.
func (w *world) wantRefreshes(want int) {
	w.Helper()
	w.source.mu.Lock()
	defer w.source.mu.Unlock()
	n := 0
	for _, req := range w.source.asked {
		if req.Background {
			n++
		}
	}
	if n != want {
		w.Fatalf("%d refreshes, want %d", n, want)
	}
}

package cache_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/runtime/policy"
)

// Only a loader's word makes a negative entry; it lives for absent-ttl.
func TestNegativeEntry(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.instance(), w.instance()
		for _, i := range []*instance{a, a, b} {
			if found := i.get(t, "k"); found.Kind != cache.Absent {
				t.Errorf("got %+v", found)
			}
		}
		if raw := w.raw("k"); raw != "M" {
			t.Errorf("L1 holds %q", raw)
		}
		w.source.set("k", "v")
		time.Sleep(30 * time.Second)
		if found := a.get(t, "k"); found.Value != "v" {
			t.Errorf("after absent-ttl: %+v", found)
		}
		if n := w.source.count("k"); n != 2 {
			t.Errorf("%d loads, want 2", n)
		}
	})
}

// Empty is a value like any other.
func TestEmptyValue(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "")
		a, b := w.instance(), w.instance()
		for _, i := range []*instance{a, a, b} {
			if found := i.get(t, "k"); found.Kind != cache.Value || found.Value != "" {
				t.Errorf("got %+v", found)
			}
		}
		if n := w.source.count("k"); n != 1 {
			t.Errorf("%d loads", n)
		}
	})
}

// A copy of what L1 holds lives no longer than L1's entry, counted from the
// load and not from the copy, and no longer than local-max-age.
func TestCopyLifetimes(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		short := func(o *cache.Options) { o.Policy.TTL = 10 * time.Second }
		a, b := w.instance(short), w.instance(short)
		a.get(t, "k")
		w.source.set("k", "v2") // and nobody says so
		time.Sleep(8 * time.Second)
		if found := b.get(t, "k"); found.Value != "v1" || found.TTL != 2*time.Second || found.LocalTTL != 2*time.Second {
			t.Errorf("at 8s: %+v", found)
		}
		time.Sleep(2 * time.Second)
		for _, i := range []*instance{a, b} {
			if found := i.get(t, "k"); found.Value != "v2" {
				t.Errorf("at 10s: %+v", found)
			}
		}
	})
	bubble(t, func(w *world) {
		w.source.set("k", "v")
		a := w.instance(func(o *cache.Options) { o.Policy.Local.MaxAge = 2 * time.Second })
		a.get(t, "k")
		time.Sleep(2 * time.Second)
		if found := a.get(t, "k"); found.Source != cache.FromL1 || found.TTL != 10*time.Minute-2*time.Second {
			t.Errorf("after local-max-age: %+v", found)
		}
	})
}

// A loader names its value's life; max-ttl cuts it and jitter spreads it.
func TestLoaderTTL(t *testing.T) {
	for _, c := range []struct {
		res  loader.Result
		want time.Duration
	}{
		{loader.Result{TTL: time.Minute}, time.Minute},
		{loader.Result{TTL: loader.Forever}, time.Hour},
		{loader.Result{Status: loader.Absent, TTL: time.Minute}, time.Minute},
		{loader.Result{Status: loader.Absent}, 30 * time.Second},
	} {
		bubble(t, func(w *world) {
			a := w.instance(func(o *cache.Options) {
				o.Policy.MaxTTL = time.Hour
				o.Loader = loader.Func(func(context.Context, loader.Request) (loader.Result, error) { return c.res, nil })
			})
			if found := a.get(t, "k"); found.TTL != c.want {
				t.Errorf("%+v: L1 holds it for %s", c.res, found.TTL)
			}
			a.ClearLocal()
			if found := a.get(t, "k"); found.TTL != c.want || found.Source != cache.FromL1 {
				t.Errorf("%+v: L1 has it for %s", c.res, found.TTL)
			}
		})
	}
	bubble(t, func(w *world) {
		a := w.instance(func(o *cache.Options) { o.Policy.TTLJitter = 10 })
		least, most := time.Hour, time.Duration(0)
		for i := range 200 {
			key := string(rune('a' + i))
			w.source.set(key, "v")
			ttl := a.get(t, key).TTL
			least, most = min(least, ttl), max(most, ttl)
		}
		if least < 9*time.Minute || most > 11*time.Minute || most-least < time.Minute {
			t.Errorf("ttl between %s and %s", least, most)
		}
	})
}

// Without Redis a reader gets what the loader says, kept for a short while and
// by this process alone; or is told so, where that is configured or nobody can
// load.
func TestRedisDown(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v")
		a := w.instance()
		strict := w.instance(func(o *cache.Options) { o.Policy.ReadFailure = policy.Error })
		external := w.instance(func(o *cache.Options) { o.Loader = nil })
		w.redis.Close()
		synctest.Wait()
		if found := a.get(t, "k"); found.Degraded != cache.RedisDown || found.TTL != 0 || found.LocalTTL != 10*time.Second {
			t.Errorf("degraded: %+v", found)
		}
		if found := a.get(t, "k"); found.Source != cache.FromL2 || found.TTL != 0 {
			t.Errorf("degraded copy: %+v", found)
		}
		time.Sleep(10 * time.Second)
		if found := a.get(t, "k"); found.Source != cache.FromLoader {
			t.Errorf("after degraded-max-age: %+v", found)
		}
		for _, i := range []*instance{strict, external} {
			found, err := i.Get(ctx, "k")
			var unreadable *cache.ReadError
			if !errors.As(err, &unreadable) || found.Kind != cache.Unknown {
				t.Errorf("got %+v, %v", found, err)
			}
		}
	})
}

// An invalidation while Redis is away fences degraded copies as well.
func TestDegradedCopyIsFenced(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a := w.instance()
		w.redis.Close()
		release := w.source.hold("k")
		flying := async(a, "k")
		synctest.Wait()
		w.source.set("k", "v2")
		a.Invalidate(ctx, "k")
		release()
		if found := <-flying; found.LocalTTL != 0 {
			t.Errorf("kept %+v", found)
		}
		if found := a.get(t, "k"); found.Value != "v2" {
			t.Errorf("then: %+v", found)
		}
	})
}

// Without a loader a miss takes no lease and writes nothing, so a later put by
// anybody is seen; the miss is remembered in L2 alone.
func TestExternalSource(t *testing.T) {
	bubble(t, func(w *world) {
		external := func(o *cache.Options) { o.Loader = nil }
		a, b := w.instance(external), w.instance(external)
		for range 2 {
			if found := a.get(t, "k"); found.Kind != cache.Unpopulated {
				t.Errorf("got %+v", found)
			}
		}
		if sent := a.stage.commands(); sent != "read 1" {
			t.Errorf("a sent %q", sent)
		}
		if raw := w.raw("k"); raw != "" {
			t.Errorf("L1 holds %q", raw)
		}
		b.Put(ctx, "k", []byte("v"), cache.PutOptions{})
		synctest.Wait()
		if found := a.get(t, "k"); found.Value != "v" {
			t.Errorf("after the put: %+v", found)
		}
	})
}

// Peek looks and never loads or leases.
func TestPeek(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v")
		a, b := w.instance(), w.instance()
		if found, err := a.Peek(ctx, "k"); err != nil || found.Kind != cache.Unpopulated {
			t.Errorf("cold: %+v, %v", found, err)
		}
		if raw := w.raw("k"); raw != "" || w.source.count("k") != 0 {
			t.Errorf("L1 holds %q, %d loads", raw, w.source.count("k"))
		}
		a.get(t, "k")
		for _, source := range []cache.Source{cache.FromL1, cache.FromL2} {
			if found, err := b.Peek(ctx, "k"); err != nil || found.Value != "v" || found.Source != source {
				t.Errorf("warm: %+v, %v", found, err)
			}
		}
	})
}

// When messages may be missing, a copy from L1 lives one heartbeat at most.
func TestFeedDown(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v")
		a := w.instance(func(o *cache.Options) { o.Feed = silentFeed{} })
		if found := a.get(t, "k"); found.LocalTTL != 5*time.Second {
			t.Errorf("kept for %s", found.LocalTTL)
		}
	})
}

// A Close that has waited long enough cuts loads short and gives their leases
// back (I5).
func TestCloseReleasesLeases(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v")
		a := w.instance(func(o *cache.Options) { o.Policy.LeaseTTL = time.Hour })
		defer w.source.hold("k")()
		answer := async(a, "k")
		synctest.Wait()
		limit, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := a.Close(limit); err == nil {
			t.Error("Close did not say that a load was under way")
		}
		if raw := w.raw("k"); raw != "" {
			t.Errorf("L1 holds %q", raw)
		}
		if found := <-answer; found.Kind != cache.Unknown {
			t.Errorf("the reader got %+v", found)
		}
	})
}

// A reader's own loader serves where the namespace has none, takes no answer
// from readers who had none, and fills both tiers for everybody.
func TestOwnLoader(t *testing.T) {
	own := loader.Func(func(context.Context, loader.Request) (loader.Result, error) {
		return loader.Result{Value: []byte("own")}, nil
	})
	external := func(o *cache.Options) { o.Loader = nil }
	bubble(t, func(w *world) {
		a, b := w.instance(external), w.instance(external)
		a.get(t, "k") // remembered as unpopulated
		if found, err := a.GetWith(ctx, "k", own); err != nil || found.Value != "own" || !found.StoredL1 {
			t.Errorf("got %+v, %v", found, err)
		}
		if found := b.get(t, "k"); found.Value != "own" || found.Source != cache.FromL1 {
			t.Errorf("b: %+v", found)
		}
	})
	bubble(t, func(w *world) {
		a := w.instance(external)
		blocked := make(chan struct{})
		a.stage.stageBefore("read", func() { <-blocked })
		leader := async(a, "k") // without a loader
		synctest.Wait()
		joined := make(chan cache.Lookup, 1)
		go func() {
			found, _ := a.GetWith(ctx, "k", own)
			joined <- found
		}()
		synctest.Wait()
		w.redis.Close()
		close(blocked)
		if found := <-leader; found.Kind != cache.Unknown {
			t.Errorf("the leader got %+v", found)
		}
		if found := <-joined; found.Value != "own" || found.Degraded != cache.RedisDown {
			t.Errorf("the reader with a loader got %+v", found)
		}
	})
}

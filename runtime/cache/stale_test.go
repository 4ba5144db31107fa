package cache_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/loader"
)

func showing(o *cache.Options) { o.Policy.StaleTTL = 5 * time.Second }

// isStale checks that found is v1, shown after its invalidation and kept
// nowhere.
func isStale(t *testing.T, who string, found cache.Lookup) {
	t.Helper()
	if found.Value != "v1" || found.Source != cache.FromStale || found.TTL != 0 || found.LocalTTL != 0 {
		t.Errorf("%s got %+v, want v1 as stale", who, found)
	}
}

// After an invalidation the one who loads waits for the new value, and who
// would wait for it is shown the old one, marked, until the fill (I14).
func TestStaleWhileLoading(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a, b, c := w.instance(showing), w.instance(showing), w.instance(showing)
		b.get(t, "k")
		a.Invalidate(ctx, "k")
		w.source.set("k", "v2")
		synctest.Wait()
		time.Sleep(time.Second)
		release := w.source.hold("k")
		loads := async(b, "k")
		synctest.Wait()
		if raw := w.raw("k"); raw != "L" {
			t.Errorf("L1 holds %q", raw)
		}
		for range 2 {
			found := c.get(t, "k")
			isStale(t, "another instance", found)
			if found.StaleFor != time.Second {
				t.Errorf("stale for %s", found.StaleFor)
			}
		}
		release()
		if found := <-loads; found.Value != "v2" || !found.StoredL1 {
			t.Errorf("the loader's reader got %+v", found)
		}
		if found := c.get(t, "k"); found.Value != "v2" || found.Source != cache.FromL1 {
			t.Errorf("after the fill: %+v", found)
		}
		if n := w.source.count("k"); n != 2 {
			t.Errorf("%d loads", n)
		}
	})
}

// Waiters of a flight are shown what its lease brought, if they came before it
// was asked for; who came later waits, and so does the leader.
func TestStaleForWaiters(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a, b := w.instance(showing), w.instance(showing)
		b.get(t, "k")
		a.Invalidate(ctx, "k")
		synctest.Wait()
		w.source.set("k", "v2")
		release := w.source.hold("k")
		var late <-chan cache.Lookup
		leader := make(chan cache.Lookup, 1)
		arrived := make(chan struct{})
		b.stage.stageAfter("read", func() { // the lease is granted, the answer not yet here
			late = async(b, "k")
			synctest.Wait()
			close(arrived)
		})
		go func() {
			found, _ := b.Get(ctx, "k")
			leader <- found
		}()
		<-arrived
		synctest.Wait()
		select {
		case found := <-late:
			t.Errorf("who came after the question got %+v", found)
		case found := <-leader:
			t.Errorf("the leader got %+v", found)
		default:
		}
		release()
		for who, answer := range map[string]<-chan cache.Lookup{"leader": leader, "late": late} {
			if found := <-answer; found.Value != "v2" {
				t.Errorf("%s got %+v", who, found)
			}
		}
	})
	bubble(t, func(w *world) { // a waiter that came before the question
		w.source.set("k", "v1")
		a, b, c := w.instance(showing), w.instance(showing), w.instance(showing)
		fills := w.source.hold("k")
		filled := async(a, "k")
		synctest.Wait()
		leader := async(b, "k") // finds the lease of a, and no copy
		synctest.Wait()
		waiter := async(b, "k")
		synctest.Wait()
		loads := func() {}
		b.stage.stageBefore("read", func() { // asks again: by now there is a copy, and no lease
			fills()
			<-filled
			c.Invalidate(ctx, "k")
			w.source.set("k", "v2")
			loads = w.source.hold("k")
		})
		isStale(t, "the waiter", <-waiter)
		select {
		case found := <-leader:
			t.Errorf("the leader got %+v", found)
		default:
		}
		loads()
		if found := <-leader; found.Value != "v2" {
			t.Errorf("the leader got %+v", found)
		}
	})
}

// The instance that wrote shows its own readers nothing stale for as long as
// the copy may live: they see what they wrote.
func TestNothingStaleAfterOwnWrite(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a, b := w.instance(showing), w.instance(showing)
		a.get(t, "k")
		a.Invalidate(ctx, "k")
		w.source.set("k", "v2")
		release := w.source.hold("k")
		loads := async(b, "k")
		synctest.Wait()
		waits := async(a, "k")
		time.Sleep(time.Second)
		select {
		case found := <-waits:
			t.Errorf("the writer's reader got %+v", found)
		default:
		}
		release()
		<-loads
		if found := <-waits; found.Value != "v2" || found.Source != cache.FromL1 {
			t.Errorf("then %+v", found)
		}
	})
}

// What a stale copy outlives and what ends it.
func TestStaleCopyLife(t *testing.T) {
	stale := func(w *world, i *instance) bool {
		release := w.source.hold("k")
		leader := async(w.instance(showing), "k")
		synctest.Wait()
		found := async(i, "k")
		synctest.Wait()
		shown := false
		select {
		case f := <-found:
			shown = f.Source == cache.FromStale
			release()
		default:
			release()
			<-found
		}
		<-leader
		return shown
	}
	setUp := func(w *world) (writer, reader *instance) {
		w.source.set("k", "v1")
		writer, reader = w.instance(showing), w.instance(showing)
		writer.get(w.t, "k")
		writer.Invalidate(ctx, "k")
		synctest.Wait()
		return writer, reader
	}
	cases := map[string]struct {
		do   func(w *world, writer *instance)
		want bool
	}{
		"at once":           {func(*world, *instance) {}, true},
		"until its end":     {func(*world, *instance) { time.Sleep(4900 * time.Millisecond) }, true},
		"past its end":      {func(*world, *instance) { time.Sleep(5 * time.Second) }, false},
		"invalidated again": {func(_ *world, i *instance) { time.Sleep(4 * time.Second); i.Invalidate(ctx, "k") }, true},
		"with its old end": {func(_ *world, i *instance) {
			time.Sleep(4 * time.Second)
			i.Invalidate(ctx, "k")
			time.Sleep(time.Second)
		}, false},
		"after a failed load": {func(w *world, i *instance) {
			w.source.fail("k", errors.New("boom"))
			i.Get(ctx, "k")
			w.source.fail("k", nil)
		}, true},
		"after a lost load": {func(w *world, i *instance) { // its fill is refused
			release := w.source.hold("k")
			loads := async(i, "k")
			synctest.Wait()
			i.Invalidate(ctx, "k")
			release()
			<-loads
		}, true},
		"after a put": {func(w *world, i *instance) {
			i.Put(ctx, "k", []byte("put"), cache.PutOptions{TTL: time.Millisecond})
			time.Sleep(2 * time.Millisecond)
		}, false},
		"after a fill": {func(w *world, i *instance) { i.get(w.t, "k"); w.del("k") }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				writer, reader := setUp(w)
				c.do(w, writer)
				if got := stale(w, reader); got != c.want {
					t.Errorf("shown %v, want %v", got, c.want)
				}
			})
		})
	}
}

// A value's own end bounds its copy, an expired value and a negative entry leave
// none, and without stale-ttl nothing does.
func TestNoStaleCopy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*cache.Options)
		pass   time.Duration
		absent bool
		want   string
	}{
		"value":    {showing, 0, false, "S"},
		"ending":   {showing, 8 * time.Second, false, "S"},
		"expired":  {showing, 10 * time.Second, false, ""},
		"negative": {showing, 0, true, ""},
		"off":      {func(*cache.Options) {}, 0, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				if !c.absent {
					w.source.set("k", "v1")
				}
				a := w.instance(c.change, func(o *cache.Options) { o.Policy.TTL = 10 * time.Second })
				a.get(t, "k")
				time.Sleep(c.pass)
				a.Invalidate(ctx, "k")
				if got := w.state("k"); got != c.want {
					t.Errorf("L1 is in state %q, want %q", got, c.want)
				}
				time.Sleep(min(5*time.Second, 10*time.Second-c.pass))
				if got := w.state("k"); got != "" {
					t.Errorf("past its end L1 is in state %q", got)
				}
			})
		})
	}
}

// A batch and what a loader reads take nothing stale.
func TestStaleIsNotForBatchesAndLoaders(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a, b, c := w.instance(showing), w.instance(showing), w.instance(showing)
		var outer *instance
		outer = w.instance(showing, func(o *cache.Options) {
			o.Loader = loader.Func(func(ctx context.Context, req loader.Request) (loader.Result, error) {
				found, err := b.Get(ctx, "k")
				return loader.Result{Value: []byte("made of " + found.Value)}, err
			})
		})
		a.get(t, "k")
		a.Invalidate(ctx, "k")
		synctest.Wait()
		w.source.set("k", "v2")
		release := w.source.hold("k")
		loads := async(a, "k")
		synctest.Wait()
		if item := c.GetAll(ctx, []string{"k"})[0]; item.Lookup.Value != "v2" {
			t.Errorf("a batch got %+v", item.Lookup)
		}
		made := async(outer, "derived")
		time.Sleep(time.Second)
		release()
		<-loads
		if found := <-made; found.Value != "made of v2" {
			t.Errorf("a loader got %q", found.Value)
		}
	})
}

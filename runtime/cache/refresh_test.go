package cache_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cocache/cocache/runtime/cache"
)

func refreshing(o *cache.Options) {
	o.Policy.TTL, o.Policy.RefreshWindow, o.Policy.LeaseWait = 10*time.Second, 4*time.Second, time.Second
}

// Inside the window a hit is answered at once and one instance of the cluster
// reloads; the others take over what L1 holds then.
func TestRefresh(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a, b := w.instance(refreshing), w.instance(refreshing)
		a.get(t, "k")
		b.get(t, "k")
		w.source.set("k", "v2")
		time.Sleep(6 * time.Second)
		release := w.source.hold("k")
		for range 100 {
			for _, i := range []*instance{a, b} {
				if found := i.get(t, "k"); found.Value != "v1" || found.Source != cache.FromL2 {
					t.Fatalf("in the window: %+v", found)
				}
			}
			synctest.Wait()
		}
		if n := w.source.count("k"); n != 2 {
			t.Errorf("%d loads, want the first and one refresh", n)
		}
		release()
		synctest.Wait()
		time.Sleep(time.Second) // the loser's next look
		for _, i := range []*instance{a, b} {
			i.get(t, "k")
			synctest.Wait()
			if found := i.get(t, "k"); found.Value != "v2" || found.Source != cache.FromL2 {
				t.Errorf("after the refresh: %+v", found)
			}
		}
		if n := w.source.count("k"); n != 2 {
			t.Errorf("%d loads", n)
		}
	})
}

// A refresh is fenced like any fill: an invalidation while it loads keeps its
// value out of both tiers.
func TestRefreshIsFenced(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a := w.instance(refreshing)
		a.get(t, "k")
		time.Sleep(7 * time.Second)
		release := w.source.hold("k")
		a.get(t, "k")
		synctest.Wait()
		w.source.set("k", "v2")
		a.Put(ctx, "k", []byte("put"), cache.PutOptions{})
		release()
		synctest.Wait()
		if found := a.get(t, "k"); found.Value != "put" {
			t.Errorf("got %+v", found)
		}
		if raw := w.raw("k"); raw != "Vput" {
			t.Errorf("L1 holds %q", raw)
		}
	})
}

// A failed refresh is nobody's error, is not tried at every hit, and leaves the
// value to expire when it would have.
func TestRefreshFails(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a := w.instance(refreshing)
		a.get(t, "k")
		w.source.fail("k", errors.New("boom"))
		time.Sleep(6 * time.Second)
		for range 39 {
			if found := a.get(t, "k"); found.Value != "v1" {
				t.Fatalf("got %+v", found)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := w.source.count("k"); n > 5 {
			t.Errorf("%d tries in 4 s", n-1)
		}
		time.Sleep(100 * time.Millisecond)
		if _, err := a.Get(ctx, "k"); err == nil {
			t.Error("the value outlived its ttl")
		}
	})
}

// Over the whole cluster failed refreshes of a key come one at a time and grow
// apart, however many readers there are; the first that succeeds is everybody's.
func TestRefreshFailuresGrowApart(t *testing.T) {
	for name, recovers := range map[string]time.Duration{"never": time.Hour, "recovers": 12 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.source.set("k", "v1")
				change := func(o *cache.Options) {
					o.Policy.TTL, o.Policy.RefreshWindow = 20*time.Second, 15*time.Second
				}
				instances := []*instance{w.instance(change), w.instance(change), w.instance(change)}
				w.trust()
				began := time.Now()
				var gaps []time.Duration
				last, tries, want := began, 1, "v1"
				instances[0].get(t, "k")
				w.source.fail("k", errors.New("boom"))
				for at := time.Duration(0); at < 19990*time.Millisecond; at += 10 * time.Millisecond {
					found := instances[int(at/10/time.Millisecond)%3].get(t, "k")
					if found.Value != want && want == "v1" || found.Value == "" {
						t.Fatalf("after %v: %+v", at, found)
					}
					if at == recovers {
						w.source.fail("k", nil)
						w.source.set("k", "v2")
						want = ""
					}
					synctest.Wait()
					if n := w.source.count("k"); n > tries {
						gaps, tries, last = append(gaps, time.Since(last)), n, time.Now()
					}
					time.Sleep(10 * time.Millisecond)
				}
				t.Logf("gaps %v", gaps)
				for i := 2; i < len(gaps); i++ {
					if gaps[i] < gaps[i-1] {
						t.Errorf("gaps %v", gaps)
					}
				}
				if len(gaps) < 3 || len(gaps) > 5 {
					t.Errorf("%d tries in the window: %v", len(gaps), gaps)
				}
				if recovers > time.Minute {
					return
				}
				for _, i := range instances {
					if found := i.get(t, "k"); found.Value != "v2" {
						t.Errorf("after the recovery %+v", found)
					}
				}
			})
		})
	}
}

// A copy that begins inside the window has no refresh point: the value expires.
func TestNoRefreshForShortLives(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v")
		a := w.instance(func(o *cache.Options) {
			refreshing(o)
			o.Policy.Local.MaxAge = time.Second
		})
		a.Put(ctx, "k", []byte("put"), cache.PutOptions{TTL: 3 * time.Second})
		for range 29 {
			a.get(t, "k")
			time.Sleep(100 * time.Millisecond)
		}
		if n := w.source.count("k"); n != 0 {
			t.Errorf("%d refreshes of a value shorter than the window", n)
		}
	})
}

// A refresh that finds nothing in L1 drops the copy.
func TestRefreshFindsNothing(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a := w.instance(refreshing)
		a.get(t, "k")
		w.source.set("k", "v2")
		w.del("k")
		time.Sleep(6 * time.Second)
		if found := a.get(t, "k"); found.Value != "v1" {
			t.Errorf("got %+v", found)
		}
		synctest.Wait()
		if found := a.get(t, "k"); found.Value != "v2" || found.Source != cache.FromLoader {
			t.Errorf("then: %+v", found)
		}
	})
}

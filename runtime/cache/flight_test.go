package cache_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/loader"
)

// Readers of one process share a load; each obeys its own context, and the
// leader's leaving ends nothing for the others.
func TestCancellation(t *testing.T) {
	for _, leaves := range []string{"leader", "waiter"} {
		t.Run(leaves, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.source.set("k", "v")
				a := w.instance()
				release := w.source.hold("k")
				leader, cancelLeader := context.WithCancel(ctx)
				waiter, cancelWaiter := context.WithCancel(ctx)
				defer cancelLeader()
				defer cancelWaiter()
				errs := map[string]chan error{"leader": make(chan error, 1), "waiter": make(chan error, 1)}
				go func() { _, err := a.Get(leader, "k"); errs["leader"] <- err }()
				synctest.Wait()
				go func() { _, err := a.Get(waiter, "k"); errs["waiter"] <- err }()
				synctest.Wait()
				stays := "waiter"
				if leaves == "leader" {
					cancelLeader()
				} else {
					cancelWaiter()
					stays = "leader"
				}
				if err := <-errs[leaves]; !errors.Is(err, context.Canceled) {
					t.Errorf("the %s that left got %v", leaves, err)
				}
				release()
				if err := <-errs[stays]; err != nil {
					t.Errorf("the %s that stayed got %v", stays, err)
				}
				if n := w.source.count("k"); n != 1 {
					t.Errorf("%d loads", n)
				}
			})
		})
	}
}

// A flight that nobody waits for any more ends before its loader begins, and a
// reader that comes then leads its own.
func TestAbandoned(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v")
		a := w.instance()
		impatient, leave := context.WithCancel(ctx)
		blocked := make(chan struct{})
		a.stage.stageAfter("read", func() { // the lease is taken, the loader has not begun
			leave()
			<-blocked
		})
		if _, err := a.Get(impatient, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		close(blocked)
		synctest.Wait()
		if n := w.source.count("k"); n != 0 {
			t.Errorf("%d loads for nobody", n)
		}
		if raw := w.raw("k"); raw != "" {
			t.Errorf("L1 holds %q", raw)
		}
		if found := a.get(t, "k"); found.Value != "v" {
			t.Errorf("then: %+v", found)
		}
	})
}

// An overdue flight: its waiters give up counted from its start, later readers
// load anew, and what it brings in the end goes to its leader and nowhere else.
func TestOverdue(t *testing.T) {
	bubble(t, func(w *world) {
		var calls atomic.Int32
		deaf := make(chan struct{})
		a := w.instance(func(o *cache.Options) {
			o.Policy.Loads.Timeout = time.Second
			o.Loader = loader.Func(func(ctx context.Context, _ loader.Request) (loader.Result, error) {
				if calls.Add(1) == 1 {
					<-deaf
					return loader.Result{Value: []byte("v1")}, nil
				}
				return loader.Result{Value: []byte("v2")}, nil
			})
		})
		began := time.Now()
		first := async(a, "k")
		time.Sleep(800 * time.Millisecond)
		late := async(a, "k")
		if found := <-late; found.Value != "error: the load did not end in time: loads.timeout = 1s" {
			t.Errorf("the waiter got %+v", found)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("gave up after %s", took)
		}
		if found := a.get(t, "k"); found.Value != "v2" || !found.StoredL1 {
			t.Errorf("the next reader got %+v", found)
		}
		close(deaf)
		if found := <-first; found.Value != "v1" || found.TTL != 0 || found.LocalTTL != 0 {
			t.Errorf("the leader got %+v", found)
		}
		if found := a.get(t, "k"); found.Value != "v2" {
			t.Errorf("then: %q", found.Value)
		}
		if raw := w.raw("k"); raw != "Vv2" {
			t.Errorf("L1 holds %q", raw)
		}
	})
}

// A loader that asks for a key of its own chain of loads is told at once.
func TestRecursion(t *testing.T) {
	bubble(t, func(w *world) {
		var a *instance
		next := map[string]string{"self": "self", "k1": "k2", "k2": "k1"}
		a = w.instance(func(o *cache.Options) {
			o.Loader = loader.Func(func(ctx context.Context, req loader.Request) (loader.Result, error) {
				found, err := a.Get(ctx, next[req.Key])
				return loader.Result{Value: []byte(found.Value)}, err
			})
		})
		began := time.Now()
		for _, key := range []string{"self", "k1"} {
			if _, err := a.Get(ctx, key); !errors.Is(err, cache.ErrRecursion) {
				t.Errorf("%s: %v", key, err)
			}
			if raw := w.raw(key); raw != "" {
				t.Errorf("%s: L1 holds %q", key, raw)
			}
		}
		if took := time.Since(began); took > time.Millisecond {
			t.Errorf("took %s", took)
		}
	})
}

// What a loader reads through the cache is not older than its own load: no copy in
// L2, no flight that began before, alone or in a batch.
func TestLoadersReadNothingOld(t *testing.T) {
	for name, read := range map[string]func(*cache.Cache, context.Context) (cache.Lookup, error){
		"get": func(c *cache.Cache, ctx context.Context) (cache.Lookup, error) { return c.Get(ctx, "part") },
		"getall": func(c *cache.Cache, ctx context.Context) (cache.Lookup, error) {
			item := c.GetAll(ctx, []string{"part"})[0]
			return item.Lookup, item.Err
		},
	} {
		for _, old := range []string{"copy", "flight"} {
			t.Run(name+", "+old, func(t *testing.T) {
				bubble(t, func(w *world) {
					var a *instance
					w.source.set("part", "old")
					a = w.instance(func(o *cache.Options) {
						o.Policy.LeaseWait = time.Second
						o.Loader = loader.Func(func(ctx context.Context, req loader.Request) (loader.Result, error) {
							if req.Key == "part" {
								return w.source.Load(ctx, req)
							}
							part, err := read(a.Cache, ctx)
							return loader.Result{Value: []byte("whole of " + part.Value)}, err
						})
					})
					release := func() {}
					if old == "copy" {
						a.get(t, "part")
						w.del("part") // and nobody is told
					} else {
						release = w.source.hold("part")
						async(a, "part")
						synctest.Wait()
					}
					w.source.set("part", "new")
					if found := a.get(t, "whole"); found.Value != "whole of new" {
						t.Errorf("got %+v", found)
					}
					release()
				})
			})
		}
	}
}

// A loader's error reaches every reader as it is and is not remembered.
func TestErrorsAreShared(t *testing.T) {
	bubble(t, func(w *world) {
		boom := errors.New("boom")
		w.source.fail("k", boom)
		a := w.instance()
		release := w.source.hold("k")
		errs := make(chan error, 10)
		for range cap(errs) {
			go func() { _, err := a.Get(ctx, "k"); errs <- err }()
		}
		synctest.Wait()
		release()
		for range cap(errs) {
			if err := <-errs; err != boom {
				t.Errorf("got %v", err)
			}
		}
		w.source.fail("k", nil)
		w.source.set("k", "v")
		if found := a.get(t, "k"); found.Value != "v" {
			t.Errorf("then: %+v", found)
		}
		if n := w.source.count("k"); n != 2 {
			t.Errorf("%d loads, want 2", n)
		}
	})
}

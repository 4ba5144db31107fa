package cache_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/runtime/policy"
)

var ctx = context.Background()

// async runs get on a goroutine of its own and hands over the answer.
func async(i *instance, key string) <-chan cache.Lookup {
	answer := make(chan cache.Lookup, 1)
	go func() {
		found, err := i.Get(ctx, key)
		if err != nil {
			found.Value = "error: " + err.Error()
		}
		answer <- found
	}()
	return answer
}

// A slow load that ends after an invalidation leaves its old value nowhere,
// however long it takes (I1, I2).
func TestSlowLoadAfterInvalidation(t *testing.T) {
	for _, length := range []time.Duration{time.Second, 10 * time.Second, 25 * time.Second} {
		t.Run(length.String(), func(t *testing.T) {
			bubble(t, func(w *world) {
				w.source.set("k", "v1")
				a, b := w.instance(), w.instance()
				release := w.source.hold("k")
				slow := async(a, "k")
				synctest.Wait()
				w.source.set("k", "v2")
				if err := b.Invalidate(ctx, "k"); err != nil {
					t.Fatal(err)
				}
				if raw := w.raw("k"); raw != "" {
					t.Errorf("after the invalidation L1 holds %q", raw)
				}
				time.Sleep(length)
				release()
				if found := <-slow; found.Value != "v1" || found.TTL != 0 || found.Degraded != cache.FillRefused {
					t.Errorf("the slow reader got %+v, want its v1, held nowhere", found)
				}
				if raw := w.raw("k"); raw != "" {
					t.Errorf("the slow load reached L1: %q", raw)
				}
				for name, i := range map[string]*instance{"a": a, "b": b} {
					if found := i.get(t, "k"); found.Value != "v2" {
						t.Errorf("%s answers %q from %v, want v2", name, found.Value, found.Source)
					}
				}
			})
		})
	}
}

// A put overwrites a lease and so destroys its token (I2).
func TestPutDuringLoad(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a, b := w.instance(), w.instance()
		release := w.source.hold("k")
		slow := async(a, "k")
		synctest.Wait()
		if err := b.Put(ctx, "k", []byte("v2"), cache.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		release()
		<-slow
		if raw := w.raw("k"); raw != "Vv2" {
			t.Errorf("L1 holds %q, want the put", raw)
		}
		if found := a.get(t, "k"); found.Value != "v2" {
			t.Errorf("a answers %q", found.Value)
		}
	})
}

// A token destroyed by an invalidation matches no later lease of the same key
// (I1), and a late loader does not free the lease that another took since (I5).
func TestTokenNeverMatchesAgain(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("fails=%v", fails), func(t *testing.T) {
			bubble(t, func(w *world) {
				w.source.set("k", "v1")
				a, b := w.instance(), w.instance()
				if fails {
					w.source.fail("k", errors.New("boom"))
				}
				releaseA := w.source.hold("k")
				first := async(a, "k")
				synctest.Wait()
				w.source.fail("k", nil)
				b.Invalidate(ctx, "k")
				w.source.set("k", "v2")
				releaseB := w.source.hold("k")
				second := async(b, "k")
				synctest.Wait()
				releaseA()
				<-first
				if raw := w.raw("k"); raw != "L" {
					t.Errorf("L1 holds %q, want b's lease untouched", raw)
				}
				releaseB()
				<-second
				if raw := w.raw("k"); raw != "Vv2" {
					t.Errorf("L1 holds %q, want b's fill", raw)
				}
			})
		})
	}
}

// An invalidation frees the lease: the next reader loads at once.
func TestInvalidationFreesLease(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a, b := w.instance(), w.instance()
		release := w.source.hold("k")
		defer release()
		async(a, "k")
		synctest.Wait()
		a.Invalidate(ctx, "k")
		w.source.set("k", "v2")
		began := time.Now()
		if found := b.get(t, "k"); found.Value != "v2" {
			t.Errorf("b got %q", found.Value)
		}
		if took := time.Since(began); took > 2*time.Millisecond {
			t.Errorf("b waited %s", took)
		}
	})
}

// One lease, one load, for the whole cluster.
func TestStampede(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v")
		release := w.source.hold("k")
		var readers sync.WaitGroup
		for range 20 {
			i := w.instance()
			for range 50 {
				readers.Go(func() {
					if found, err := i.Get(ctx, "k"); err != nil || found.Value != "v" {
						t.Errorf("got %q, %v", found.Value, err)
					}
				})
			}
		}
		synctest.Wait()
		time.Sleep(time.Second)
		release()
		readers.Wait()
		if n := w.source.count("k"); n != 1 {
			t.Errorf("%d loads, want 1", n)
		}
	})
}

// A waiter looks again with a growing pause and takes what the holder filled.
func TestWaiterTakesFill(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v")
		a, b := w.instance(), w.instance()
		release := w.source.hold("k")
		async(a, "k")
		synctest.Wait()
		waiting := async(b, "k")
		time.Sleep(time.Second)
		release()
		found := <-waiting
		if found.Value != "v" || found.Source != cache.FromL1 || !found.Waited {
			t.Errorf("b got %+v", found)
		}
		if n := w.source.count("k"); n != 1 {
			t.Errorf("%d loads, want 1", n)
		}
		// 2+4+8+16+32 ms, then every 50 ms: 5 + (1000-62)/50 looks, and the first.
		if sent := b.stage.commands(); sent != "read 25" {
			t.Errorf("b sent %q", sent)
		}
	})
}

// When lease-wait is over the waiter loads without L1 and keeps a degraded
// copy.
func TestLeaseWaitOver(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v")
		a, b := w.instance(), w.instance()
		release := w.source.hold("k")
		defer release()
		async(a, "k")
		synctest.Wait()
		began := time.Now()
		found := b.get(t, "k")
		if found.Source != cache.FromLoader || found.Degraded != cache.LeaseWait || found.TTL != 0 {
			t.Errorf("b got %+v", found)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("b waited %s, want lease-wait", took)
		}
		if found := b.get(t, "k"); found.Source != cache.FromL2 || found.LocalTTL != 10*time.Second || found.TTL != 0 {
			t.Errorf("b's copy: %+v", found)
		}
		if raw := w.raw("k"); raw != "L" {
			t.Errorf("L1 holds %q, want a's lease", raw)
		}
	})
}

// When the holder is gone its lease ends, and a waiter's load counts.
func TestWaiterTakesOver(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v")
		short := func(o *cache.Options) { o.Policy.LeaseTTL = time.Second }
		a, b := w.instance(short), w.instance(short)
		release := w.source.hold("k")
		late := async(a, "k")
		synctest.Wait()
		began := time.Now()
		found := b.get(t, "k")
		if found.Source != cache.FromLoader || !found.StoredL1 {
			t.Errorf("b got %+v", found)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("b took over after %s, want the lease's rest", took)
		}
		release()
		if found := <-late; found.Degraded != cache.FillRefused {
			t.Errorf("the late holder got %+v", found)
		}
	})
}

// Every way in which a lease comes to nothing gives it back at once (I5).
func TestLeaseReleased(t *testing.T) {
	failing := func(err error) loader.Func {
		return func(context.Context, loader.Request) (loader.Result, error) { return loader.Result{}, err }
	}
	answering := func(res loader.Result) loader.Func {
		return func(context.Context, loader.Request) (loader.Result, error) { return res, nil }
	}
	boom := errors.New("boom")
	cases := map[string]struct {
		loader loader.Func
		check  func(error) bool
	}{
		"error": {failing(boom), func(err error) bool { return err == boom }},
		"typed": {failing(loader.Failf("no")), func(err error) bool {
			var e *loader.Error
			return errors.As(err, &e)
		}},
		"panic": {func(context.Context, loader.Request) (loader.Result, error) { panic("boom") }, func(err error) bool {
			var e *loader.Error
			return errors.As(err, &e) && e.Message == "panic: boom"
		}},
		"exit":     {func(context.Context, loader.Request) (loader.Result, error) { runtime.Goexit(); panic("not reached") }, isLoaderError},
		"status":   {answering(loader.Result{Status: 77}), isLoaderError},
		"codec":    {answering(loader.Result{Value: []byte{0xff}}), isLoaderError},
		"ttl":      {answering(loader.Result{TTL: -time.Second}), isLoaderError},
		"too big":  {answering(loader.Result{Value: make([]byte, 9<<20)}), isLoaderError},
		"no-store": {answering(loader.Result{NoStore: true}), func(err error) bool { return err == nil }},
		"overdue": {func(ctx context.Context, _ loader.Request) (loader.Result, error) {
			<-ctx.Done()
			return loader.Result{}, ctx.Err()
		}, func(err error) bool {
			var e *cache.LoadTimeoutError
			return errors.As(err, &e)
		}},
		"deaf": {func(ctx context.Context, _ loader.Request) (loader.Result, error) {
			time.Sleep(time.Minute)
			return loader.Result{Value: []byte("too late")}, nil
		}, func(err error) bool { return err == nil }}, // the leader gets it, and nobody else
		"deaf, and then nonsense": {func(ctx context.Context, _ loader.Request) (loader.Result, error) {
			time.Sleep(time.Minute)
			return loader.Result{Value: []byte{0xff}}, nil
		}, func(err error) bool {
			var e *cache.LoadTimeoutError
			return errors.As(err, &e)
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				a := w.instance(func(o *cache.Options) {
					o.Loader = c.loader
					o.Policy.Loads.Timeout, o.Policy.LeaseTTL = 5*time.Second, time.Minute
				})
				if _, err := a.Get(ctx, "k"); !c.check(err) {
					t.Errorf("error %v", err)
				}
				synctest.Wait()
				if n := a.Stats().Leases["released"]; n != 1 {
					t.Errorf("the lease was released %d times", n)
				}
				if raw := w.raw("k"); raw != "" {
					t.Errorf("L1 holds %q", raw)
				}
				if found, _ := a.Peek(ctx, "k"); found.Kind != cache.Unpopulated {
					t.Errorf("kept %+v", found)
				}
			})
		})
	}
}

func isLoaderError(err error) bool {
	var e *loader.Error
	return errors.As(err, &e)
}

// A load over the limit is refused and its lease given back.
func TestLoadLimit(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("a", "1")
		i := w.instance(func(o *cache.Options) {
			o.Policy.Loads = policy.Loads{MaxConcurrent: 1, MaxQueued: 1}
		})
		release := w.source.hold("a")
		first := async(i, "a")
		synctest.Wait()
		queued := async(i, "b")
		synctest.Wait()
		_, err := i.Get(ctx, "c")
		var over *cache.OverloadedError
		if !errors.As(err, &over) || over.Limit != "loads.max-queued" {
			t.Errorf("third load: %v", err)
		}
		if raw := w.raw("c"); raw != "" {
			t.Errorf("L1 holds %q", raw)
		}
		if found := <-queued; found.Value != "error: too many loads: loads.max-concurrent = 1" {
			t.Errorf("queued load: %+v", found)
		}
		release()
		<-first
	})
}

// The second bump: a read on the writer's own instance that took its stamp
// after the first bump, and the old value before the script ran, leaves no copy
// (I3).
func TestReadBetweenBumpAndScript(t *testing.T) {
	writes := map[string]func(*instance) error{
		"put":        func(i *instance) error { return i.Put(ctx, "k", []byte("v2"), cache.PutOptions{}) },
		"invalidate": func(i *instance) error { return i.Invalidate(ctx, "k") },
	}
	for verb, write := range writes {
		t.Run(verb, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.source.set("k", "v1")
				a := w.instance()
				a.get(t, "k")
				a.stage.stageBefore(verb, func() {
					w.source.set("k", "v2")
					if found := a.get(t, "k"); found.Value != "v1" || found.Source != cache.FromL1 {
						t.Errorf("in the gap: %+v", found)
					}
				})
				if err := write(a); err != nil {
					t.Fatal(err)
				}
				if found := a.get(t, "k"); found.Value != "v2" {
					t.Errorf("after the write a answers %q from %v", found.Value, found.Source)
				}
			})
		})
	}
}

// One stamp serves the whole call: an invalidation between the read of L1 and
// the copy, or during the wait for a lease, drops the copy (I3).
func TestInvalidationDuringRead(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a, b := w.instance(), w.instance()
		a.get(t, "k")
		b.stage.stageAfter("read", func() {
			w.source.set("k", "v2")
			a.Invalidate(ctx, "k")
			synctest.Wait() // the message has arrived
		})
		if found := b.get(t, "k"); found.Value != "v1" || found.LocalTTL != 0 {
			t.Errorf("the read that came before got %+v, want v1 and no copy", found)
		}
		if found := b.get(t, "k"); found.Value != "v2" {
			t.Errorf("the next read got %q from %v", found.Value, found.Source)
		}
	})
}

// A read after an invalidation does not join a load that began before it, and
// what that load brings is not shared with it (I9).
func TestReadYourWrites(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a := w.instance()
		release := w.source.hold("k")
		old := async(a, "k")
		synctest.Wait()
		joined := async(a, "k")
		synctest.Wait()
		w.source.set("k", "v2")
		a.Invalidate(ctx, "k")
		fresh := make([]<-chan cache.Lookup, 100)
		for i := range fresh {
			fresh[i] = async(a, "k")
		}
		for _, answer := range fresh {
			if found := <-answer; found.Value != "v2" {
				t.Errorf("a reader after the invalidation got %q", found.Value)
			}
		}
		release()
		for which, answer := range []<-chan cache.Lookup{old, joined} {
			if found := <-answer; found.Value != "v1" {
				t.Errorf("reader %d before the invalidation got %+v", which, found)
			}
		}
		if found := a.get(t, "k"); found.Value != "v2" {
			t.Errorf("then: %q", found.Value)
		}
		if n := w.source.count("k"); n != 2 {
			t.Errorf("%d loads, want 2", n)
		}
	})
}

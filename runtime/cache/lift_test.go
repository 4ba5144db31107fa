package cache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/loader"
)

func lifting(o *cache.Options) {
	bulk(o)
	o.Policy.Loads.BatchWindow, o.Policy.Loads.BatchKeys = 5*time.Millisecond, 10
}

// Single loads that begin within the window are one call of the loader, as far as
// that takes as many; each key has its own outcome, lease and fill.
func TestLift(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.instance(lifting)
		boom := errors.New("boom")
		w.source.fail("7", boom)
		for i := range 25 {
			if i%2 == 0 {
				w.source.set(fmt.Sprint(i), fmt.Sprint("value ", i))
			}
		}
		began := time.Now()
		var readers sync.WaitGroup
		for i := range 25 {
			readers.Go(func() {
				found, err := a.Get(ctx, fmt.Sprint(i))
				switch {
				case i == 7:
					if err != boom {
						t.Errorf("7: %v", err)
					}
				case err != nil || found.Kind == cache.Value != (i%2 == 0) || i%2 == 0 && found.Value != fmt.Sprint("value ", i):
					t.Errorf("%d: %+v, %v", i, found, err)
				case !found.StoredL1:
					t.Errorf("%d is not in L1: %+v", i, found)
				}
			})
		}
		readers.Wait()
		if took := time.Since(began); took != 5*time.Millisecond {
			t.Errorf("took %s", took)
		}
		if w.source.bulk != 3 {
			t.Errorf("%d calls for 25 keys of 10 each", w.source.bulk)
		}
		if raw := w.raw("7"); raw != "" {
			t.Errorf("the failed key's lease stays: %q", raw)
		}
	})
}

// A gathered load that comes late is its leaders' alone, as any is.
func TestLiftLate(t *testing.T) {
	bubble(t, func(w *world) {
		deaf := make(chan struct{})
		var calls atomic.Int32
		a := w.instance(func(o *cache.Options) {
			o.Policy.Loads.BatchWindow, o.Policy.Loads.Timeout = 5*time.Millisecond, time.Second
			o.Loader = batchFunc(func(_ context.Context, reqs []loader.Request) ([]loader.Outcome, error) {
				outcomes := make([]loader.Outcome, len(reqs))
				for i := range reqs {
					outcomes[i].Result.Value = []byte(fmt.Sprint("v", calls.Load()))
				}
				if calls.Add(1) == 1 {
					<-deaf
				}
				return outcomes, nil
			})
		})
		leader := async(a, "k")
		time.Sleep(500 * time.Millisecond)
		if found := <-async(a, "k"); found.Value != "error: the load did not end in time: loads.timeout = 1s" {
			t.Errorf("the waiter got %+v", found)
		}
		if found := a.get(t, "k"); found.Value != "v1" {
			t.Errorf("the next reader got %+v", found)
		}
		close(deaf)
		if found := <-leader; found.Value != "v0" || found.LocalTTL != 0 {
			t.Errorf("the leader got %+v", found)
		}
		if found := a.get(t, "k"); found.Value != "v1" {
			t.Errorf("then %+v", found)
		}
	})
}

// A batch takes one place; a call that fails fails all its keys; readers that leave,
// and a load that takes too long, are each their own.
func TestLiftFails(t *testing.T) {
	bubble(t, func(w *world) {
		boom := errors.New("boom")
		var calls atomic.Int32
		a := w.instance(func(o *cache.Options) {
			o.Policy.Loads.BatchWindow, o.Policy.Loads.Timeout = 5*time.Millisecond, time.Second
			o.Policy.Loads.MaxConcurrent, o.Policy.Loads.MaxQueued = 1, -1
			o.Loader = batchFunc(func(ctx context.Context, reqs []loader.Request) ([]loader.Outcome, error) {
				calls.Add(1)
				if slices.ContainsFunc(reqs, func(r loader.Request) bool { return r.Key == "slow" }) {
					<-ctx.Done()
				}
				return nil, boom
			})
		})
		first, second := async(a, "k"), async(a, "l")
		for _, answer := range []<-chan cache.Lookup{first, second} {
			if found := <-answer; found.Value != "error: boom" {
				t.Errorf("got %+v", found)
			}
		}
		slow := async(a, "slow")
		time.Sleep(10 * time.Millisecond)
		if found := <-async(a, "m"); found.Value != "error: too many loads: loads.max-concurrent = 1" &&
			found.Value != "error: too many loads: loads.max-queued = 0" {
			t.Errorf("without a place: %+v", found)
		}
		if found := <-slow; found.Value != "error: the load did not end in time: loads.timeout = 1s" {
			t.Errorf("overdue: %+v", found)
		}
		synctest.Wait()
		for _, key := range []string{"k", "l", "m", "slow"} {
			if raw := w.raw(key); raw != "" {
				t.Errorf("%s: L1 holds %q", key, raw)
			}
		}
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls", n)
		}
	})
}

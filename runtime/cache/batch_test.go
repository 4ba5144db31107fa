package cache_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/channel"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/loader"
)

// silentFeed never confirms anything.
type silentFeed struct{}

func (silentFeed) Add(context.Context, string, entry.NodeID, channel.Handler) error {
	return errors.New("silent")
}
func (silentFeed) Remove(string, entry.NodeID)   {}
func (silentFeed) Reliance(string) time.Duration { return 5 * time.Second }

func bulk(o *cache.Options) { o.Loader = bulkSource{o.Loader.(*source)} }

// A batch costs one read of L1, one load and one round of fills, and answers
// each key in the order asked, duplicates too.
func TestGetAll(t *testing.T) {
	for name, change := range map[string]func(*cache.Options){"batch": bulk, "single": func(*cache.Options) {}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				a, b := w.instance(change), w.instance(change)
				for _, key := range []string{"l2", "l1", "new", "bad"} {
					w.source.set(key, "value of "+key)
				}
				b.get(t, "l1")
				a.get(t, "l2")
				boom := errors.New("boom")
				w.source.fail("bad", boom)
				a.stage.commands()
				keys := []string{"new", "l2", "none", "bad", "l1", "new"}
				items := a.GetAll(ctx, keys)
				sources := []cache.Source{cache.FromLoader, cache.FromL2, cache.FromLoader, cache.FromNone, cache.FromL1, cache.FromLoader}
				for i, item := range items {
					want := "value of " + keys[i]
					switch keys[i] {
					case "none":
						want = ""
						if item.Lookup.Kind != cache.Absent {
							t.Errorf("none: %+v", item)
						}
					case "bad":
						want = ""
						if item.Err != boom {
							t.Errorf("bad: %+v", item)
						}
					}
					if item.Lookup.Value != want || item.Lookup.Source != sources[i] {
						t.Errorf("%s: %+v", keys[i], item)
					}
				}
				if name == "batch" {
					if sent := a.stage.commands(); sent != "read 1 fill 1 release 1" {
						t.Errorf("sent %q", sent)
					}
					if w.source.bulk != 1 {
						t.Errorf("%d batches", w.source.bulk)
					}
				}
				for key, want := range map[string]string{"new": "Vvalue of new", "none": "M", "bad": ""} {
					if raw := w.raw(key); raw != want {
						t.Errorf("L1 holds %q under %s", raw, key)
					}
				}
			})
		})
	}
}

// A batch joins flights under way, and does not wait for leases held elsewhere:
// those keys it loads without L1.
func TestGetAllJoinsAndPasses(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.instance(bulk), w.instance(bulk)
		for _, key := range []string{"here", "there", "free"} {
			w.source.set(key, key)
		}
		releaseHere, releaseThere := w.source.hold("here"), w.source.hold("there")
		defer releaseThere()
		async(a, "here")
		async(b, "there")
		synctest.Wait()
		answer := make(chan []cache.Item)
		go func() { answer <- a.GetAll(ctx, []string{"here", "there", "free"}) }()
		time.Sleep(time.Second)
		releaseHere()
		items := <-answer
		if f := items[0].Lookup; f.Value != "here" || !f.Joined {
			t.Errorf("here: %+v", f)
		}
		if f := items[1].Lookup; f.Value != "there" || f.Degraded != cache.LeaseWait {
			t.Errorf("there: %+v", f)
		}
		if f := items[2].Lookup; f.Value != "free" || !f.StoredL1 {
			t.Errorf("free: %+v", f)
		}
		if n := w.source.count("here"); n != 1 {
			t.Errorf("%d loads of here", n)
		}
		if raw := w.raw("there"); raw != "L" {
			t.Errorf("L1 holds %q under there", raw)
		}
	})
}

// Two batches that want each other's keys do not wait in a circle.
func TestGetAllCrossed(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.instance(bulk)
		w.source.set("k1", "1")
		w.source.set("k2", "2")
		for range 200 {
			done := make(chan bool)
			for _, keys := range [][]string{{"k1", "k2"}, {"k2", "k1"}} {
				go func() {
					for _, item := range a.GetAll(ctx, keys) {
						if item.Err != nil {
							t.Error(item.Err)
						}
					}
					done <- true
				}()
			}
			<-done
			<-done
			a.InvalidateAll(ctx, []string{"k1", "k2"})
		}
	})
}

// A batch after an invalidation does not take the result of a flight from
// before it (I9).
func TestGetAllReadsItsWrites(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a := w.instance(bulk)
		release := w.source.hold("k")
		old := async(a, "k")
		synctest.Wait()
		w.source.set("k", "v2")
		a.Invalidate(ctx, "k")
		if item := a.GetAll(ctx, []string{"k"})[0]; item.Lookup.Value != "v2" {
			t.Errorf("got %+v", item)
		}
		release()
		<-old
	})
}

// A batch that comes to nothing gives every lease back.
func TestGetAllReleases(t *testing.T) {
	loaders := map[string]func(context.Context, []loader.Request) ([]loader.Outcome, error){
		"error":   func(context.Context, []loader.Request) ([]loader.Outcome, error) { return nil, errors.New("boom") },
		"panic":   func(context.Context, []loader.Request) ([]loader.Outcome, error) { panic("boom") },
		"too few": func(context.Context, []loader.Request) ([]loader.Outcome, error) { return nil, nil },
		"overdue": func(ctx context.Context, _ []loader.Request) ([]loader.Outcome, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}
	for name, load := range loaders {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				a := w.instance(func(o *cache.Options) {
					o.Loader, o.Policy.LeaseTTL = batchFunc(load), time.Minute
				})
				for _, item := range a.GetAll(ctx, []string{"k1", "k2"}) {
					if item.Err == nil {
						t.Errorf("got %+v", item)
					}
				}
				synctest.Wait()
				for _, key := range []string{"k1", "k2"} {
					if raw := w.raw(key); raw != "" {
						t.Errorf("L1 holds %q", raw)
					}
				}
			})
		})
	}
}

// A batch that comes late goes to the caller who led it, and nowhere else.
func TestGetAllOverdue(t *testing.T) {
	bubble(t, func(w *world) {
		deaf := make(chan struct{})
		var calls atomic.Int32
		a := w.instance(func(o *cache.Options) {
			o.Policy.Loads.Timeout = time.Second
			o.Loader = batchFunc(func(_ context.Context, reqs []loader.Request) ([]loader.Outcome, error) {
				if calls.Add(1) > 1 {
					return []loader.Outcome{{Result: loader.Result{Value: []byte("v2")}}}, nil
				}
				<-deaf
				return []loader.Outcome{{Result: loader.Result{Value: []byte("v1")}}, {Err: errors.New("boom")}}, nil
			})
		})
		answers := make(chan []cache.Item, 1)
		go func() { answers <- a.GetAll(ctx, []string{"k", "bad"}) }()
		time.Sleep(500 * time.Millisecond)
		if found := <-async(a, "k"); found.Value != "error: the load did not end in time: loads.timeout = 1s" {
			t.Errorf("the waiter got %+v", found)
		}
		if found := a.get(t, "k"); found.Value != "v2" {
			t.Errorf("the next reader got %+v", found)
		}
		close(deaf)
		if items := <-answers; items[0].Lookup.Value != "v1" || items[1].Err == nil {
			t.Errorf("the leader got %+v", items)
		}
		if found := a.get(t, "k"); found.Value != "v2" || w.raw("k") != "Vv2" {
			t.Errorf("then %+v, L1 holds %q", found, w.raw("k"))
		}
	})
}

type batchFunc func(context.Context, []loader.Request) ([]loader.Outcome, error)

func (f batchFunc) LoadAll(ctx context.Context, reqs []loader.Request) ([]loader.Outcome, error) {
	return f(ctx, reqs)
}

func (f batchFunc) Load(ctx context.Context, req loader.Request) (loader.Result, error) {
	outcomes, err := f(ctx, []loader.Request{req})
	if err != nil {
		return loader.Result{}, err
	}
	return outcomes[0].Result, outcomes[0].Err
}

package cache_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/policy"
)

var (
	refusedByRedis = &l1.Error{Op: "invalidate", Err: errors.New("refused")}
	nobodyKnows    = &l1.Error{Op: "invalidate", OutcomeUnknown: true, Err: errors.New("no answer")}
)

// A failed invalidation is tried again in the background. Until it succeeds
// this instance reads the key past L1, single, batch and refresh alike; then it
// drops what it read so (I13).
func TestInvalidationRetried(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a, b := w.instance(bulk), w.instance()
		a.get(t, "k")
		a.stage.breakOff("invalidate", refusedByRedis)
		w.source.set("k", "v2")
		if gone := a.InvalidateAll(ctx, []string{"k"})[0]; !gone.Queued || gone.Err != nil {
			t.Errorf("got %+v", gone)
		}
		if found := a.get(t, "k"); found.Value != "v2" || found.Degraded != cache.PendingInvalidation {
			t.Errorf("a: %+v", found)
		}
		a.ClearLocal()
		if item := a.GetAll(ctx, []string{"k"})[0]; item.Lookup.Value != "v2" || item.Lookup.TTL != 0 {
			t.Errorf("a's batch: %+v", item)
		}
		if found := b.get(t, "k"); found.Value != "v1" {
			t.Errorf("b: %+v", found)
		}
		a.stage.commands()
		time.Sleep(650 * time.Millisecond) // 100 and 200 ms later; the next after 400
		if sent := a.stage.commands(); sent != "invalidate 2" {
			t.Errorf("a sent %q", sent)
		}
		if s := a.Stats(); s.Pending != 1 || s.Dropped != 0 {
			t.Errorf("%d pending, %d dropped", s.Pending, s.Dropped)
		}
		a.stage.breakOff("invalidate", nil)
		time.Sleep(time.Second)
		if raw := w.raw("k"); raw != "" {
			t.Errorf("L1 holds %q", raw)
		}
		for name, i := range map[string]*instance{"a": a, "b": b} {
			if found := i.get(t, "k"); found.Value != "v2" || found.Degraded != cache.NotDegraded {
				t.Errorf("%s after the retry: %+v", name, found)
			}
		}
	})
}

// Eight attempts, 100 ms to 10 s apart, then it is counted as dropped.
func TestInvalidationGivenUp(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.instance()
		a.stage.breakOff("invalidate", refusedByRedis)
		a.Invalidate(ctx, "k")
		a.stage.commands()
		time.Sleep(22 * time.Second)
		if sent := a.stage.commands(); sent != "invalidate 7" {
			t.Errorf("sent %q in 22 s", sent)
		}
		time.Sleep(time.Second)
		if sent := a.stage.commands(); sent != "invalidate 1" {
			t.Errorf("then %q", sent)
		}
		time.Sleep(time.Minute)
		if s := a.Stats(); s.Pending != 0 || s.Dropped != 1 || a.stage.commands() != "" {
			t.Errorf("%d pending, %d dropped", s.Pending, s.Dropped)
		}
	})
}

// While Redis is known to be away nothing is sent, so no attempt is used up; when
// it is back the invalidation goes out at once, however long it was gone.
func TestPendingOutlastsOutage(t *testing.T) {
	for name, away := range map[string]error{"never there": l1.ErrAway, "silent": l1.ErrDown} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.source.set("k", "v1")
				a, b := w.instance(), w.instance()
				a.get(t, "k")
				a.stage.breakOff("invalidate", &l1.Error{Op: "invalidate", Err: away})
				w.source.set("k", "v2")
				a.Invalidate(ctx, "k")
				time.Sleep(5 * time.Minute)
				if s := a.Stats(); s.Pending != 1 || s.Dropped != 0 {
					t.Fatalf("%d pending, %d dropped", s.Pending, s.Dropped)
				}
				a.stage.breakOff("invalidate", nil)
				time.Sleep(time.Second)
				for _, i := range []*instance{a, b} {
					if found := i.get(t, "k"); found.Value != "v2" {
						t.Errorf("got %+v", found)
					}
				}
			})
		})
	}
}

// The queue is bounded: a key that finds no room fails with the write error.
func TestPendingIsBounded(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.instance()
		a.stage.breakOff("invalidate", refusedByRedis)
		keys := make([]string, 10_001)
		for i := range keys {
			keys[i] = fmt.Sprint(i)
		}
		failed := 0
		for _, gone := range a.InvalidateAll(ctx, keys) {
			var e *cache.WriteError
			if errors.As(gone.Err, &e) {
				failed++
			} else if !gone.Queued {
				t.Errorf("got %+v", gone)
			}
		}
		if s := a.Stats(); failed != 1 || s.Pending != 10_000 || s.Dropped != 1 {
			t.Errorf("%d failed, %d pending, %d dropped", failed, s.Pending, s.Dropped)
		}
		a.stage.breakOff("invalidate", nil)
		time.Sleep(time.Second)
		if s := a.Stats(); s.Pending != 0 {
			t.Errorf("%d pending", s.Pending)
		}
	})
}

// A write sent after the failure makes the retry needless; one sent before does
// not, since it may have reached Redis before what it should undo.
func TestWriteSettlesPending(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.instance()
		a.stage.breakOff("invalidate", refusedByRedis)
		a.Invalidate(ctx, "k")
		a.Put(ctx, "k", []byte("v"), cache.PutOptions{})
		if s := a.Stats(); s.Pending != 0 {
			t.Errorf("a put after it left %d pending", s.Pending)
		}
		a.stage.stageBefore("put", func() { a.Invalidate(ctx, "k") })
		a.Put(ctx, "k", []byte("v"), cache.PutOptions{})
		if s := a.Stats(); s.Pending != 1 {
			t.Errorf("a put before it left %d pending", s.Pending)
		}
	})
}

// The key is pending before the second bump: a read that comes after that skips
// L1, and one that came before is fenced by it (I13).
func TestPendingBeforeSecondBump(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a := w.instance()
		a.get(t, "k")
		a.stage.breakOff("invalidate", refusedByRedis)
		a.stage.stageAfter("read", func() { // a read has the old value, and no copy yet
			w.source.set("k", "v2")
			a.Invalidate(ctx, "k")
		})
		a.ClearLocal()
		if found := a.get(t, "k"); found.Value != "v1" || found.LocalTTL != 0 {
			t.Errorf("the read before: %+v", found)
		}
		if found := a.get(t, "k"); found.Value != "v2" {
			t.Errorf("the read after: %+v", found)
		}
	})
}

// A cache that closes tries once more and counts what then is left.
func TestCloseTriesPending(t *testing.T) {
	for _, mended := range []bool{true, false} {
		bubble(t, func(w *world) {
			w.source.set("k", "v")
			a := w.instance()
			a.get(t, "k")
			a.stage.breakOff("invalidate", refusedByRedis)
			a.Invalidate(ctx, "k")
			if mended {
				a.stage.breakOff("invalidate", nil)
			}
			if err := a.Close(context.Background()); err != nil {
				t.Error(err)
			}
			s := a.Stats()
			if raw := w.raw("k"); (raw == "") != mended || (s.Dropped == 0) != mended || s.Pending != 0 {
				t.Errorf("mended %v: L1 holds %q, %d dropped, %d pending", mended, raw, s.Dropped, s.Pending)
			}
		})
	}
}

// Where that is configured, or nobody can load, the caller is told instead.
func TestInvalidationFails(t *testing.T) {
	bubble(t, func(w *world) {
		strict := w.instance(func(o *cache.Options) { o.Policy.InvalidateFailure = policy.Error })
		strict.stage.breakOff("invalidate", nobodyKnows)
		var failed *cache.WriteError
		if err := strict.Invalidate(ctx, "k"); !errors.As(err, &failed) || !failed.OutcomeUnknown {
			t.Errorf("got %v", err)
		}
		if s := strict.Stats(); s.Pending != 0 {
			t.Errorf("%d pending", s.Pending)
		}
		for _, c := range []struct {
			unknown policy.Unknown
			want    cache.Kind
		}{{policy.ErrorUnknown, cache.Unknown}, {policy.AbsentUnknown, cache.Absent}} {
			external := w.instance(func(o *cache.Options) { o.Loader, o.Policy.UnknownRead = nil, c.unknown })
			strict.Put(ctx, "k", []byte("v"), cache.PutOptions{})
			external.stage.breakOff("invalidate", refusedByRedis)
			external.Invalidate(ctx, "k")
			found, err := external.Get(ctx, "k")
			if found.Kind != c.want || (err != nil) != (c.want == cache.Unknown) {
				t.Errorf("unknown-read %s: %+v, %v", c.unknown, found, err)
			}
			external.stage.breakOff("invalidate", nil)
			time.Sleep(time.Second)
			if found := external.get(t, "k"); found.Kind != cache.Unpopulated {
				t.Errorf("after the retry: %+v", found)
			}
		}
	})
}

// After a write whose outcome was unknown, the node's own message evicts too:
// the write may have been carried out after a read of what was there before.
func TestOwnMessageAfterUnknownOutcome(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a := w.instance()
		late := a.stage.L1
		a.get(t, "k")
		a.stage.breakOff("put", nobodyKnows)
		if err := a.Put(ctx, "k", []byte("v2"), cache.PutOptions{}); err == nil {
			t.Fatal("the put did not fail")
		}
		if found := a.get(t, "k"); found.Value != "v1" {
			t.Errorf("before the write: %+v", found)
		}
		fill := l1.Fill{State: 'V', TTL: time.Hour}
		fill.Body.Codec, fill.Body.Payload = 2, "v2"
		again := []l1.KeyFill{{Key: "k", Fill: fill}}
		if err := late.PutAll(ctx, again)[0]; err != nil { // the same node's, carried out late
			t.Fatal(err)
		}
		synctest.Wait()
		if found := a.get(t, "k"); found.Value != "v2" {
			t.Errorf("after the write: %+v", found)
		}
		time.Sleep(5 * time.Minute) // local.max-age: the exception ends
		a.get(t, "k")
		late.PutAll(ctx, again)
		synctest.Wait()
		if found := a.get(t, "k"); found.Source != cache.FromL2 {
			t.Errorf("after the exception: %+v", found)
		}
	})
}

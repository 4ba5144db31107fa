package cache_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/policy"
)

// A put is seen at once where it was made and after its message elsewhere, and
// costs one script; nobody writes L2 but a reader.
func TestPut(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v1")
		a, b := w.instance(), w.instance()
		a.get(t, "k")
		b.get(t, "k")
		a.stage.commands()
		if err := a.Put(ctx, "k", []byte("v2"), cache.PutOptions{TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for name, i := range map[string]*instance{"a": a, "b": b} {
			if found := i.get(t, "k"); found.Value != "v2" || found.Source != cache.FromL1 || found.TTL != time.Hour {
				t.Errorf("%s: %+v", name, found)
			}
		}
		// The node's own message has arrived and is skipped: the copy stays.
		if found := a.get(t, "k"); found.Source != cache.FromL2 {
			t.Errorf("second get from %v", found.Source)
		}
		if sent := a.stage.commands(); sent != "read 1 put 1" {
			t.Errorf("a sent %q", sent)
		}
	})
}

// Puts go together, each is told, of two for a key the later stays, and one that
// cannot be taken fails alone.
func TestPutAll(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.instance(), w.instance()
		for _, i := range []*instance{a, b} {
			for _, key := range []string{"k", "l"} {
				i.get(t, key)
			}
		}
		a.stage.commands()
		errs := a.PutAll(ctx, []cache.Put{
			{Key: "k", Value: []byte("first")},
			{Key: "bad", Value: []byte("\xff")}, // no text
			{Key: "l", Value: []byte("l"), PutOptions: cache.PutOptions{TTL: time.Hour}},
			{Key: "k", Value: []byte("second")},
		})
		if sent := a.stage.commands(); sent != "put 1" {
			t.Errorf("sent %s", sent)
		}
		var invalid *cache.InvalidError
		if errs[0] != nil || !errors.As(errs[1], &invalid) || errs[2] != nil || errs[3] != nil {
			t.Errorf("errors %v", errs)
		}
		synctest.Wait()
		for name, i := range map[string]*instance{"a": a, "b": b} {
			if k, l := i.get(t, "k"), i.get(t, "l"); k.Value != "second" || l.Value != "l" || l.TTL != time.Hour {
				t.Errorf("%s: %+v, %+v", name, k, l)
			}
		}
		if got := a.PutAll(ctx, nil); len(got) != 0 {
			t.Errorf("of nothing: %v", got)
		}
	})
}

// A put leaves the ttl that it names, untouched by jitter, whatever was there.
func TestPutLifetimes(t *testing.T) {
	for _, c := range []struct {
		ttl, want time.Duration
	}{{0, 10 * time.Minute}, {time.Second, time.Second}, {cache.Forever, cache.Forever}} {
		bubble(t, func(w *world) {
			a := w.instance(func(o *cache.Options) { o.Policy.TTLJitter = 50 })
			a.get(t, "k") // a negative entry
			if err := a.Put(ctx, "k", nil, cache.PutOptions{TTL: c.ttl}); err != nil {
				t.Fatal(err)
			}
			if found := a.get(t, "k"); found.TTL != c.want || found.Kind != cache.Value {
				t.Errorf("put with %s: %+v", c.ttl, found)
			}
		})
	}
}

// What a caller hands in is judged before anything is sent.
func TestPutRefusals(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.instance(func(o *cache.Options) {
			o.Policy.MaxTTL = time.Hour
			o.Policy.Limits = policy.Limits{MaxKeyBytes: 3, MaxValueBytes: 3}
		})
		for what, err := range map[string]error{
			"key":          a.Put(ctx, "long", nil, cache.PutOptions{}),
			"value":        a.Put(ctx, "k", []byte("long"), cache.PutOptions{}),
			"ttl":          a.Put(ctx, "k", nil, cache.PutOptions{TTL: 2 * time.Hour}),
			"content-type": a.Put(ctx, "k", nil, cache.PutOptions{ContentType: "text/html"}),
		} {
			var invalid *cache.InvalidError
			if !errors.As(err, &invalid) || invalid.What != what {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, ttl := range []time.Duration{-1, -time.Hour, time.Microsecond} {
			if err := a.Put(ctx, "k", nil, cache.PutOptions{TTL: ttl}); err == nil {
				t.Errorf("ttl %s was taken", ttl)
			}
		}
		if sent := a.stage.commands(); sent != "" {
			t.Errorf("sent %q", sent)
		}
	})
}

// A write that fails takes its local effect all the same and says whether it
// may have happened.
func TestWriteFails(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v")
		a := w.instance(func(o *cache.Options) { o.Policy.InvalidateFailure = policy.Error })
		a.get(t, "k")
		w.redis.Close()
		for op, write := range map[string]func() error{
			"put":        func() error { return a.Put(ctx, "k", []byte("w"), cache.PutOptions{}) },
			"invalidate": func() error { return a.Invalidate(ctx, "k") },
		} {
			var failed *cache.WriteError
			if err := write(); !errors.As(err, &failed) || failed.Op != op {
				t.Errorf("%s: %v", op, err)
			}
			if found := a.get(t, "k"); found.Source != cache.FromLoader || found.Degraded != cache.RedisDown {
				t.Errorf("after %s: %+v", op, found)
			}
		}
	})
}

// Many keys are dropped at once, each told apart in the answer.
func TestInvalidateAll(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.instance(func(o *cache.Options) { o.Policy.Limits.MaxKeyBytes = 2 }), w.instance()
		for _, key := range []string{"k1", "k2", "k3"} {
			w.source.set(key, "v1")
			a.get(t, key)
			b.get(t, key)
			w.source.set(key, "v2")
		}
		gone := a.InvalidateAll(ctx, []string{"k1", "too long", "k2"})
		if gone[0].Err != nil || gone[1].Err == nil || gone[2].Err != nil {
			t.Errorf("got %v", gone)
		}
		synctest.Wait()
		for key, want := range map[string]string{"k1": "v2", "k2": "v2", "k3": "v1"} {
			if found := b.get(t, key); found.Value != want {
				t.Errorf("%s: %q", key, found.Value)
			}
		}
	})
}

// ClearLocal drops this process's copies and nobody else's.
func TestClearLocal(t *testing.T) {
	bubble(t, func(w *world) {
		w.source.set("k", "v")
		a, b := w.instance(), w.instance()
		a.get(t, "k")
		b.get(t, "k")
		release := w.source.hold("other")
		flying := async(a, "other")
		synctest.Wait()
		a.ClearLocal()
		release()
		if found := <-flying; found.LocalTTL != 0 {
			t.Errorf("a load from before the reset left a copy: %+v", found)
		}
		if found := a.get(t, "k"); found.Source != cache.FromL1 {
			t.Errorf("a: %+v", found)
		}
		if found := b.get(t, "k"); found.Source != cache.FromL2 {
			t.Errorf("b: %+v", found)
		}
	})
}

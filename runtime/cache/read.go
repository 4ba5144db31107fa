package cache

import (
	"context"
	"fmt"
	"time"

	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/l2"
	"github.com/cocache/cocache/runtime/loader"
)

// Get reads a key through L2 and L1 to the loader. Errors are *ReadError,
// *OverloadedError, *LoadTimeoutError, *InvalidError, ErrRecursion, ErrClosed,
// the context's, and whatever the loader returned (*loader.Error from the
// hosted engines), unwrapped.
func (c *Cache) Get(ctx context.Context, key string) (Lookup, error) { return c.get(ctx, key, nil) }

// GetWith is Get with a loader of the caller's own, which serves this read in
// place of the namespace's. It shares a flight with other readers of the key,
// whichever loader that has, but takes no answer from readers who had none.
func (c *Cache) GetWith(ctx context.Context, key string, own loader.Loader) (Lookup, error) {
	return c.get(ctx, key, own)
}

func (c *Cache) get(ctx context.Context, key string, own loader.Loader) (Lookup, error) {
	inLoad := loadingAny(ctx)
	if !inLoad {
		if found, ok := c.local(key); ok && (own == nil || found.Kind != Unpopulated) {
			c.counts.read(found)
			return found, nil
		}
	}
	began := time.Now()
	found, err := c.miss(ctx, key, wish{own: own, fresh: inLoad})
	c.finish(began, found, err)
	return found, err
}

func (c *Cache) finish(began time.Time, found Lookup, err error) {
	c.counts.readOutcome(found, err)
	c.observer.Read(found.Source, time.Since(began))
}

// local answers from L2 (step 1).
func (c *Cache) local(key string) (Lookup, bool) {
	copy, now, ok := c.l2.Get(key)
	if !ok {
		return Lookup{}, false
	}
	if copy.RefreshDue(now) {
		c.startRefresh(key, copy)
	}
	return fromCopy(copy, now), true
}

func fromCopy(copy *l2.Copy, now l2.Instant) Lookup {
	found := Lookup{
		Kind: Value, Source: FromL2, Value: copy.Value, ContentType: copy.ContentType, Version: copy.Version,
		LocalTTL: copy.Until.Sub(now),
	}
	switch copy.Kind {
	case l2.Absent:
		found.Kind = Absent
	case l2.Unpopulated:
		found.Kind = Unpopulated
	}
	if copy.Degraded {
		found.Degraded = FillRefused
	}
	if copy.L1Until > now {
		found.TTL = copy.L1Until.Sub(now)
	}
	return found
}

func (c *Cache) checkKey(key string) error {
	if limit := c.policy.Limits.MaxKeyBytes; len(key) > limit {
		return &InvalidError{What: "key", Limit: "limits.max-key-bytes", Value: fmt.Sprint(limit),
			Text: fmt.Sprintf("%d bytes are over limits.max-key-bytes = %d", len(key), limit)}
	}
	return nil
}

// Peek answers from L2 or L1 and never loads; Unpopulated when neither holds
// the key.
func (c *Cache) Peek(ctx context.Context, key string) (Lookup, error) {
	if found, ok := c.local(key); ok {
		c.counts.read(found)
		return found, nil
	}
	began := time.Now()
	found, err := c.peek(ctx, key)
	c.finish(began, found, err)
	return found, err
}

func (c *Cache) peek(ctx context.Context, key string) (Lookup, error) {
	if err := c.checkKey(key); err != nil {
		return Lookup{}, err
	}
	r := read{Cache: c, ctx: ctx, key: key, noted: c.stamps.Note(key)}
	if c.pending.Find(key) != nil {
		return c.unknown(errPending)
	}
	sent := c.l2.Now()
	reading, err := c.l1.Read(ctx, key, l1.Ask{})
	if err != nil {
		return c.unknown(err)
	}
	if c.understood(reading) != l1.Hit {
		return Lookup{Kind: Unpopulated}, nil
	}
	return r.fromL1(reading, sent), nil
}

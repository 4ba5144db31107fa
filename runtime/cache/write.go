package cache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cocache/cocache/runtime/codec"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/pending"
	"github.com/cocache/cocache/runtime/policy"
)

// PutOptions of one value.
type PutOptions struct {
	TTL         time.Duration // 0: the namespace's, without jitter; Forever
	ContentType string        // codec raw only
}

// Put stores a value over whatever is under the key and tells every instance.
// When it returns, this instance no longer answers with what was there before.
// Errors are *InvalidError and *WriteError.
func (c *Cache) Put(ctx context.Context, key string, value []byte, o PutOptions) error {
	return c.PutAll(ctx, []Put{{key, value, o}})[0]
}

// Put is one value of PutAll.
type Put struct {
	Key   string
	Value []byte
	PutOptions
}

// PutAll is Put of several values together: of two for one key the later stays.
// It answers one error per value, in their order; one that fails fails alone.
func (c *Cache) PutAll(ctx context.Context, puts []Put) []error {
	errs := make([]error, len(puts))
	var fills []l1.KeyFill
	var at []int
	for i, p := range puts {
		f, err := c.putFill(p.Key, p.Value, p.PutOptions)
		if errs[i] = err; err == nil {
			fills, at = append(fills, l1.KeyFill{Key: p.Key, Fill: f}), append(at, i)
		}
	}
	if len(fills) == 0 {
		return errs
	}
	failures := make([]*pending.Failure, len(fills)) // before the script: what is queued later it does not serve
	for j, f := range fills {
		c.l2.Invalidate(f.Key)
		failures[j] = c.pending.Find(f.Key)
	}
	for j, err := range c.l1.PutAll(ctx, fills) {
		key := fills[j].Key
		if err == nil {
			c.pending.Settle(failures[j])
		} else {
			c.exceptOwn(key, err)
		}
		c.wroteNow(key)
		c.l2.Invalidate(key)
		errs[at[j]] = c.written(opPut, err)
	}
	return errs
}

// putFill checks what a caller wants stored.
func (c *Cache) putFill(key string, value []byte, o PutOptions) (l1.Fill, error) {
	if err := c.checkKey(key); err != nil {
		return l1.Fill{}, err
	}
	if limit := c.policy.Limits.MaxValueBytes; int64(len(value)) > limit {
		return l1.Fill{}, &InvalidError{What: "value", Limit: "limits.max-value-bytes", Value: fmt.Sprint(limit),
			Text: fmt.Sprintf("%d bytes are over limits.max-value-bytes = %d", len(value), limit)}
	}
	if err := codec.Check(c.policy.Codec, value); err != nil {
		return l1.Fill{}, &InvalidError{What: "value", Text: err.Error()}
	}
	if err := codec.CheckContentType(c.policy.Codec, o.ContentType); err != nil {
		return l1.Fill{}, &InvalidError{What: "content-type", Text: err.Error()}
	}
	ttl, err := c.putTTL(o.TTL)
	if err != nil {
		return l1.Fill{}, err
	}
	body := entry.Body{Codec: codec.ID(c.policy.Codec), Payload: string(value)}
	if c.policy.Codec == policy.Raw {
		body.ContentType = o.ContentType
	}
	return l1.Fill{State: entry.Value, TTL: ttl, Body: body}, nil
}

func (c *Cache) putTTL(ttl time.Duration) (time.Duration, error) {
	switch limit := c.policy.MaxTTL; {
	case ttl == 0:
		return c.policy.TTL, nil
	case ttl < time.Millisecond:
		return 0, &InvalidError{What: "ttl", Text: fmt.Sprintf("%s is under 1ms", ttl)}
	case ttl > limit:
		return 0, &InvalidError{What: "ttl", Limit: "max-ttl", Value: policy.Text(limit),
			Text: fmt.Sprintf("%s is over max-ttl = %s", policy.Text(ttl), policy.Text(limit))}
	default:
		return ttl, nil
	}
}

// Invalidation is how dropping one key went.
type Invalidation struct {
	// Queued: Redis could not be told; it is tried again in the background, and
	// until then this instance reads the key past L1.
	Queued bool
	Err    error // *InvalidError or *WriteError
}

// Invalidate drops a key everywhere. When it returns nil, this instance no
// longer answers with what was there before; and no load that began before can
// cache its value, at once or, where Redis could not be told, once a retry in
// the background succeeds.
func (c *Cache) Invalidate(ctx context.Context, key string) error {
	return c.InvalidateAll(ctx, []string{key})[0].Err
}

// InvalidateAll drops keys everywhere; it answers one Invalidation per key, in
// their order.
func (c *Cache) InvalidateAll(ctx context.Context, keys []string) []Invalidation {
	outcomes := make([]Invalidation, len(keys))
	var valid []string
	var at []int
	for i, key := range keys {
		if outcomes[i].Err = c.checkKey(key); outcomes[i].Err == nil {
			valid, at = append(valid, key), append(at, i)
		}
	}
	if len(valid) == 0 {
		return outcomes
	}
	c.invalidateLocal(valid)
	failures := make([]*pending.Failure, len(valid)) // before the script: what is queued later it does not serve
	for j, key := range valid {
		failures[j] = c.pending.Find(key)
	}
	for j, err := range c.l1.Invalidate(ctx, valid, c.staleTTL()) {
		if err == nil {
			c.pending.Settle(failures[j])
		}
		outcomes[at[j]] = c.invalidated(valid[j], err)
		c.wroteNow(valid[j])
	}
	c.invalidateLocal(valid)
	return outcomes
}

// invalidated decides what a failure means; it is queued before the second
// bump, so that a read which comes after that sees it.
func (c *Cache) invalidated(key string, err error) Invalidation {
	if err == nil {
		return Invalidation{Err: c.written(opInvalidate, nil)}
	}
	c.exceptOwn(key, err)
	failed := c.written(opInvalidate, err)
	if c.policy.InvalidateFailure == policy.Error {
		return Invalidation{Err: failed}
	}
	if c.queue(key) {
		return Invalidation{Queued: true}
	}
	c.drop(1, "not taken for another try")
	return Invalidation{Err: failed}
}

func (c *Cache) invalidateLocal(keys []string) {
	for _, key := range keys {
		c.l2.Invalidate(key)
	}
}

// written counts a write and makes its error the caller's.
func (c *Cache) written(op int, err error) error {
	c.counts.write(op, err)
	if err == nil {
		c.counts.sent.Add(1)
		return nil
	}
	return &WriteError{Op: opNames[op], OutcomeUnknown: outcomeUnknown(err), Err: err}
}

func outcomeUnknown(err error) bool {
	var e *l1.Error
	return errors.As(err, &e) && e.OutcomeUnknown
}

// saidNo reports whether Redis said no, rather than nothing.
func saidNo(err error) bool {
	var e *l1.Error
	return errors.As(err, &e) && e.Answered()
}

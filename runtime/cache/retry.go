package cache

import (
	"context"
	"time"

	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/pending"
)

// queue takes a failed invalidation over into the background; false when there
// is no room, or the cache is closed.
func (c *Cache) queue(key string) bool {
	queued, start := c.pending.Add(key)
	if start && !c.start(c.retry) {
		c.drop(c.pending.Abandon()-1, "the namespace is closed") // this one is its caller's to know of
		return false
	}
	return queued
}

// retry works the queue until it is empty or the cache closes, which tries
// once more and drops the rest.
func (c *Cache) retry() {
	for {
		failures, wait := c.pending.Due()
		switch {
		case len(failures) > 0:
			c.again(c.life, failures)
			continue
		case wait == 0:
			return
		}
		select {
		case <-time.After(wait):
		case <-c.life.Done():
			c.lastTry()
			return
		}
	}
}

// again tries failures once. After a success this instance drops what it
// loaded without L1 meanwhile.
func (c *Cache) again(ctx context.Context, failures []*pending.Failure) {
	keys := make([]string, len(failures))
	for i, f := range failures {
		keys[i] = f.Key
	}
	var failed, away []*pending.Failure
	for i, err := range c.l1.Invalidate(ctx, keys, c.staleTTL()) {
		if l1.Away(err) && !failures[i].LastTry() { // not on the last try of a closing cache
			away = append(away, failures[i])
			continue
		}
		c.counts.write(opInvalidate, err)
		if err != nil {
			c.exceptOwn(keys[i], err)
			failed = append(failed, failures[i])
			continue
		}
		c.counts.sent.Add(1)
		c.pending.Settle(failures[i])
		c.wroteNow(keys[i])
		c.l2.Invalidate(keys[i])
	}
	c.pending.Away(away)
	c.drop(len(c.pending.Failed(failed)), "every attempt failed")
}

// lastTry is that of a closing cache: one attempt each.
func (c *Cache) lastTry() {
	for failures := c.pending.Last(); len(failures) > 0; failures = c.pending.Last() {
		c.again(context.WithoutCancel(c.life), failures)
	}
}

// drop counts invalidations that will not happen: other instances may serve the
// old value for what remains of its life in L1.
func (c *Cache) drop(keys int, why string) {
	if keys <= 0 {
		return
	}
	total := c.counts.dropped.Add(uint64(keys))
	if c.notices.dropped.Due() {
		c.log.Error("invalidations dropped", "keys", keys, "why", why, "so far", total)
	}
}

package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cocache/cocache/runtime/frame"
	"github.com/cocache/cocache/runtime/l1"
)

// Bounds of the retries of failed invalidations.
const (
	maxPending      = 10_000
	pendingAttempts = 8
	pendingFirst    = 100 * time.Millisecond
	pendingLast     = 10 * time.Second
	pendingAway     = 500 * time.Millisecond // between two looks while Redis is known to be away
)

// pending are the keys whose invalidation failed and is tried again in the
// background. Until it succeeds, reads of the key on this instance skip L1, whose
// value may be old (I13).
type pending struct {
	count atomic.Int64 // len(keys), for reads
	mu    sync.Mutex
	keys  map[string]*failure // guarded by mu
	runs  bool                // guarded by mu; the retrier is under way
}

// failure is one failed invalidation; its identity tells it from a later one of
// the same key.
type failure struct {
	key      string
	attempts int
	due      time.Time
}

// of is the key's failure, nil without one.
func (p *pending) of(key string) *failure {
	if p.count.Load() == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[key]
}

// add queues the key anew; false when the queue is full. start is true when
// nobody works the queue yet: the caller must.
func (p *pending) add(key string) (queued, start bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, again := p.keys[key]; !again && len(p.keys) >= maxPending {
		return false, false
	}
	if p.keys == nil {
		p.keys = map[string]*failure{}
	}
	p.keys[key] = &failure{key: key, due: time.Now().Add(pendingFirst)}
	p.count.Store(int64(len(p.keys)))
	start, p.runs = !p.runs, true
	return true, start
}

// done takes failures off the queue that are still the ones given: a write
// sent after a key was queued, and no other, makes its invalidation needless.
func (p *pending) done(failures ...*failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range failures {
		if f != nil && p.keys[f.key] == f {
			delete(p.keys, f.key)
		}
	}
	p.count.Store(int64(len(p.keys)))
}

// due takes no more than a frame's worth of failures whose time has come; when
// there are none it says how long to wait, and 0 once the queue is empty and the
// retrier may end.
func (p *pending) due() (now []*failure, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.keys) == 0 {
		p.runs = false
		return nil, 0
	}
	wait = pendingLast
	for _, f := range p.keys {
		left := time.Until(f.due)
		if left <= 0 && len(now) < frame.MaxKeys {
			now = append(now, f)
		}
		wait = min(wait, max(left, time.Millisecond))
	}
	return now, wait
}

// away puts failures off whose attempt was not even sent, because Redis is known
// to be away: that is no attempt, and they must go out soon after it returns.
func (p *pending) away(failures []*failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range failures {
		f.due = time.Now().Add(pendingAway)
	}
}

// failed puts failures off, and returns those that have used up their attempts,
// taken off the queue.
func (p *pending) failed(failures []*failure) (given []*failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range failures {
		if p.keys[f.key] != f {
			continue
		}
		if f.attempts++; f.attempts >= pendingAttempts {
			delete(p.keys, f.key)
			given = append(given, f)
			continue
		}
		f.due = time.Now().Add(min(pendingFirst<<f.attempts, pendingLast))
	}
	p.count.Store(int64(len(p.keys)))
	return given
}

// last takes up to a frame's worth of failures for their last attempt; when there
// are none the retrier may end.
func (p *pending) last() (failures []*failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs = len(p.keys) > 0
	for _, f := range p.keys {
		if len(failures) == frame.MaxKeys {
			break
		}
		f.attempts = pendingAttempts
		failures = append(failures, f)
	}
	return failures
}

// abandon empties the queue, which nobody works.
func (p *pending) abandon() (keys int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	keys = len(p.keys)
	clear(p.keys)
	p.count.Store(0)
	p.runs = false
	return keys
}

// queue takes a failed invalidation over into the background; false when there
// is no room, or the cache is closed.
func (c *Cache) queue(key string) bool {
	queued, start := c.pending.add(key)
	if start && !c.start(c.retry) {
		c.drop(c.pending.abandon()-1, "the namespace is closed") // this one is its caller's to know of
		return false
	}
	return queued
}

// retry works the queue until it is empty or the cache closes, which tries
// once more and drops the rest.
func (c *Cache) retry() {
	for {
		failures, wait := c.pending.due()
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
func (c *Cache) again(ctx context.Context, failures []*failure) {
	keys := make([]string, len(failures))
	for i, f := range failures {
		keys[i] = f.key
	}
	var failed, away []*failure
	for i, err := range c.l1.Invalidate(ctx, keys, c.staleTTL()) {
		if l1.Away(err) && failures[i].attempts < pendingAttempts { // not on the last try of a closing cache
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
		c.pending.done(failures[i])
		c.wroteNow(keys[i])
		c.l2.Invalidate(keys[i])
	}
	c.pending.away(away)
	c.drop(len(c.pending.failed(failed)), "every attempt failed")
}

// lastTry is that of a closing cache: one attempt each.
func (c *Cache) lastTry() {
	for failures := c.pending.last(); len(failures) > 0; failures = c.pending.last() {
		c.again(context.WithoutCancel(c.life), failures)
	}
}

// drop counts invalidations that will not happen: other instances may serve the
// old value for what remains of its life in L1.
func (c *Cache) drop(keys int, why string) {
	if keys > 0 {
		c.counts.dropped.Add(uint64(keys))
		c.log.Error("invalidations dropped", "keys", keys, "why", why)
	}
}

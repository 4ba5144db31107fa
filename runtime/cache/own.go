package cache

import (
	"sync"
	"sync/atomic"
	"time"
)

// maxOwn bounds the keys whose own messages count.
const maxOwn = 10_000

// own are the keys of writes whose outcome was unknown. Such a write may yet be
// carried out, after this node has read what was there before; so for
// local.max-age the node's own messages on these keys evict like another's.
type own struct {
	count atomic.Int64 // len(until), or 1 while all is set, for messages
	mu    sync.Mutex
	until map[string]time.Time // guarded by mu
	all   time.Time            // guarded by mu; until then every own message counts
}

// except makes own messages on key count until the given moment; past maxOwn
// keys, on every key.
func (o *own) except(key string, until time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.until == nil {
		o.until = map[string]time.Time{}
	}
	if len(o.until) >= maxOwn {
		o.all = until
		o.forgetLocked(time.Now())
	} else {
		o.until[key] = until
	}
	o.count.Store(int64(max(len(o.until), 1)))
}

// forgetLocked removes what has ended.
func (o *own) forgetLocked(now time.Time) {
	for key, end := range o.until {
		if !end.After(now) {
			delete(o.until, key)
		}
	}
}

// counts reports whether an own message on key must evict.
func (o *own) counts(key string) bool {
	if o.count.Load() == 0 {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	return o.all.After(now) || o.until[key].After(now)
}

// exceptOwn notes the exception after a write whose outcome is unknown.
func (c *Cache) exceptOwn(key string, err error) {
	if outcomeUnknown(err) {
		c.own.except(key, time.Now().Add(c.policy.Local.MaxAge))
	}
}

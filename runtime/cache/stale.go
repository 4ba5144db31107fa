package cache

import (
	"sync/atomic"
	"time"

	"github.com/cocache/cocache/runtime/codec"
	"github.com/cocache/cocache/runtime/flight"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/policy"
	"github.com/cocache/cocache/runtime/stamp"
)

// staleTTL is how long a value may be shown on after an invalidation, 0 for not
// at all.
func (c *Cache) staleTTL() time.Duration { return max(c.policy.StaleTTL, 0) }

// ownWrites is when this instance last wrote on each stripe, on L2's clock: for
// stale-ttl after that it shows nobody a stale value there, so that its readers
// see its writes (I14).
type ownWrites [stamp.Stripes]atomic.Int64

// wroteNow notes a write of this instance, before its second bump: a read that
// comes after that sees the note.
func (c *Cache) wroteNow(key string) {
	if c.policy.StaleTTL != policy.Off {
		c.wrote[c.stamps.Note(key).Stripe()].Store(int64(c.l2.Now()))
	}
}

// stale is the answer that a stale copy gives to those who would otherwise wait;
// ok is false where it must not be shown.
func (r *read) stale(copy *l1.Copy) (found Lookup, ok bool) {
	if copy == nil || copy.Entry.Codec != codec.ID(r.policy.Codec) {
		return Lookup{}, false
	}
	wrote := r.wrote[r.noted.Stripe()].Load()
	if wrote != 0 && time.Duration(int64(r.l2.Now())-wrote) < r.staleTTL() {
		return Lookup{}, false
	}
	return Lookup{Kind: Value, Source: FromStale, Value: copy.Entry.Payload, ContentType: copy.Entry.ContentType,
		Version: copy.Entry.Version, StaleFor: copy.Age}, true
}

// offerStale shows a stale copy to the waiters of the flight; its leader loads,
// or goes on waiting.
func (r *read) offerStale(copy *l1.Copy, ask int) {
	if found, ok := r.stale(copy); ok {
		r.offer(flight.Offer[result]{Ask: ask, Result: result{found: found, ask: ask}})
	}
}

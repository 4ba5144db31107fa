// Package l2 is the local tier: one process's copies of one namespace,
// bounded by entries and bytes.
//
// A copy is stored only under a stamp, in the same critical section with the
// comparison (package stamp), and dropped only after a bump; so once an
// invalidation has returned no copy that began before it can appear. Only the
// read path stores. What is handed out is an immutable string; a hit copies
// nothing, allocates nothing and takes no lock that all keys share.
package l2

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/cocache/cocache/runtime/stamp"
	"github.com/maypok86/otter/v2"
)

// Kind says what a copy stands for.
type Kind uint8

const (
	Value       Kind = iota
	Absent           // a copy of a negative entry
	Unpopulated      // nothing in L1 and nobody to load it
)

// Copy is one entry of the tier; it is not changed once stored, but for its
// refresh point.
type Copy struct {
	Kind        Kind
	Degraded    bool // bypassed L1
	Value       string
	ContentType string
	Version     uint64
	Until       Instant      // end of the copy
	L1Until     Instant      // end of what L1 holds, or Never; 0 when it does not hold it
	refreshAt   atomic.Int64 // when a hit should start a refresh; 0: never
}

// SetRefresh sets when hits should start a refresh.
func (c *Copy) SetRefresh(at Instant) { c.refreshAt.Store(int64(at)) }

// RefreshDue reports whether a refresh should start, to exactly one of its
// callers.
func (c *Copy) RefreshDue(now Instant) bool {
	at := c.refreshAt.Load()
	return at != 0 && int64(now) >= at && c.refreshAt.CompareAndSwap(at, 0)
}

// Instant is a moment on the tier's monotonic clock, in nanoseconds; 0 is
// before any.
type Instant int64

// Never is later than any moment.
const Never Instant = math.MaxInt64

// Add is d after i, at most Never.
func (i Instant) Add(d time.Duration) Instant {
	if d > 0 && i > Never-Instant(d) {
		return Never
	}
	return i + Instant(d)
}

// Sub is the time from j to i; forever when i is Never.
func (i Instant) Sub(j Instant) time.Duration {
	if i == Never {
		return math.MaxInt64
	}
	return time.Duration(i - j)
}

// Options bound the tier.
type Options struct {
	MaxEntries int
	MaxBytes   int64 // of keys, values and content types
}

// Tier is one namespace's copies.
type Tier struct {
	copies  *otter.Cache[string, *Copy]
	stamps  *stamp.Table
	epoch   time.Time
	bytes   atomic.Int64  // of keys, values and content types
	evicted atomic.Uint64 // copies that gave way for room
}

// New makes an empty tier fenced by stamps.
func New(o Options, stamps *stamp.Table) *Tier {
	t := &Tier{stamps: stamps, epoch: time.Now().Add(-1)}
	// One weight keeps both bounds: each copy weighs at least the share that
	// MaxEntries leaves it.
	share := max(o.MaxBytes/int64(o.MaxEntries), 1)
	t.copies = otter.Must(&otter.Options[string, *Copy]{
		MaximumWeight: uint64(min(share*int64(o.MaxEntries), o.MaxBytes)),
		Weigher: func(key string, c *Copy) uint32 {
			return uint32(min(max(size(key, c), share), math.MaxUint32))
		},
		OnAtomicDeletion: func(e otter.DeletionEvent[string, *Copy]) {
			t.bytes.Add(-size(e.Key, e.Value))
			if e.WasEvicted() {
				t.evicted.Add(1)
			}
		},
	})
	return t
}

func size(key string, c *Copy) int64 { return int64(len(key) + len(c.Value) + len(c.ContentType)) }

// Now is the tier's clock.
func (t *Tier) Now() Instant { return Instant(time.Since(t.epoch)) }

// Get returns the key's living copy and the moment it was found alive.
func (t *Tier) Get(key string) (*Copy, Instant, bool) {
	c, ok := t.copies.GetIfPresent(key)
	if !ok {
		return nil, 0, false
	}
	now := t.Now()
	return c, now, now < c.Until
}

// Store keeps a copy if no invalidation of the key's stripe came since noted,
// and reports whether it did. A degraded copy never replaces a living one.
func (t *Tier) Store(key string, noted stamp.Stamp, c *Copy) bool {
	stored := false
	t.stamps.Store(noted, func() {
		if c.Degraded {
			if _, _, alive := t.Get(key); alive {
				return
			}
		}
		t.bytes.Add(size(key, c))
		t.copies.Set(key, c)
		stored = true
	})
	return stored
}

// Invalidate drops the key's copy and makes every stamp noted for it so far
// outdated: first the bump, then the eviction, so that nothing stored under an
// old stamp survives both.
func (t *Tier) Invalidate(key string) {
	t.stamps.Bump(key)
	t.copies.Invalidate(key)
}

// Drop drops the key's copy if no invalidation came since noted: for a reader
// that found L1 without the entry.
func (t *Tier) Drop(key string, noted stamp.Stamp) {
	t.stamps.Store(noted, func() { t.copies.Invalidate(key) })
}

// Reset drops every copy and outdates every stamp.
func (t *Tier) Reset() {
	t.stamps.BumpAll()
	t.copies.InvalidateAll()
}

// Stats are the tier's figures.
type Stats struct {
	Entries int
	Bytes   int64
	Evicted uint64
}

// Stats reads the figures; expired copies that nobody asked for since count
// until they give way.
func (t *Tier) Stats() Stats {
	return Stats{Entries: t.copies.EstimatedSize(), Bytes: t.bytes.Load(), Evicted: t.evicted.Load()}
}

// Close ends the tier's background work.
func (t *Tier) Close() { t.copies.StopAllGoroutines() }

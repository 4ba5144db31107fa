// Package stamp counts invalidations, so that a copy made before one is never
// kept after it.
//
// Keys share a fixed number of stripes by a keyed hash; each stripe has a
// counter. A reader notes the counter before it reads what the copy is made
// from, and stores the copy only through Store, which compares and stores in
// one critical section that every bump of the stripe also enters (invariant
// I3). Two keys of one stripe cost each other a dropped copy, never a wrong
// one.
package stamp

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// Stripes is how many counters a table has.
const Stripes = 4096

// Stamp is the state of a key's stripe at one moment. The zero Stamp is older
// than any that Note returns.
type Stamp struct {
	stripe uint32
	count  uint64
}

// Before reports whether s was noted before an invalidation that t has seen.
// Both must be of one key.
func (s Stamp) Before(t Stamp) bool { return s.count < t.count }

// Stripe is the number of the key's stripe, below Stripes.
func (s Stamp) Stripe() int { return int(s.stripe) }

// Table is one namespace's stamps in this process.
type Table struct {
	seed    maphash.Seed
	stripes [Stripes]stripe
}

type stripe struct {
	mu    sync.Mutex
	count atomic.Uint64 // written under mu, read without
}

// NewTable starts every counter at one.
func NewTable() *Table {
	t := &Table{seed: maphash.MakeSeed()}
	for i := range t.stripes {
		t.stripes[i].count.Store(1)
	}
	return t
}

// Note returns the key's stamp as it is now.
func (t *Table) Note(key string) Stamp {
	i := uint32(maphash.String(t.seed, key) % Stripes)
	return Stamp{stripe: i, count: t.stripes[i].count.Load()}
}

// Bump makes every stamp noted for the key so far outdated. When it returns, no
// Store under such a stamp is under way or will happen.
func (t *Table) Bump(key string) { t.bump(maphash.String(t.seed, key) % Stripes) }

// BumpAll bumps every stripe.
func (t *Table) BumpAll() {
	for i := range uint64(Stripes) {
		t.bump(i)
	}
}

func (t *Table) bump(i uint64) {
	s := &t.stripes[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count.Add(1)
}

// Store runs store if no bump has come since noted, holding off bumps until it
// returns, and reports whether it ran. store must not block or call the table.
func (t *Table) Store(noted Stamp, store func()) bool {
	s := &t.stripes[noted.stripe]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count.Load() != noted.count {
		return false
	}
	store()
	return true
}

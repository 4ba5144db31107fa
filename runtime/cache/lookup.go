package cache

import (
	"time"

	"github.com/cocache/cocache/runtime/policy"
)

// Forever is the TTL of what does not expire.
const Forever = policy.Forever

// Kind is what a read learnt.
type Kind uint8

const (
	Unknown     Kind = iota // nothing: Redis could not be read and nothing else could answer
	Value                   // the key has a value
	Absent                  // the key does not exist at the source
	Unpopulated             // nothing is held, and nobody was asked to load it
)

var kindNames = [...]string{"unknown", "value", "absent", "unpopulated"}

func (k Kind) String() string { return kindNames[k] }

// Source is where an answer came from.
type Source uint8

const (
	FromNone Source = iota
	FromL2
	FromL1
	FromLoader
	FromStale // L1, of a value that has been invalidated
)

// Sources is how many there are.
const Sources = int(FromStale) + 1

var sourceNames = [Sources]string{"none", "l2", "l1", "loader", "stale"}

func (s Source) String() string { return sourceNames[s] }

// Reason is why an answer bypassed L1: none, or what stood in the way.
type Reason uint8

const (
	NotDegraded Reason = iota
	RedisDown
	FillRefused
	LeaseWait
	NewerFormat
	ForeignContent
	PendingInvalidation
)

var reasonNames = [...]string{"", "redis-down", "fill-refused", "lease-wait", "newer-format", "unreadable", "pending-invalidation"}

func (r Reason) String() string { return reasonNames[r] }

// Lookup is the answer to a read: what, from where, and for how long.
type Lookup struct {
	Kind   Kind
	Source Source
	// Value is the encoded value; it shares memory with the cache, which a
	// string lets nobody write to.
	Value       string
	ContentType string // of a raw value, when its writer gave one
	Version     uint64
	// TTL is how long L1 still holds the answer, Forever without end, 0 when
	// it does not hold it: a cache in front must not keep it longer.
	TTL time.Duration
	// LocalTTL is how long this process keeps its copy; 0 without one.
	LocalTTL time.Duration
	// Degraded says why L1 has no part in the answer. An answer from L2 that
	// was degraded when it was made says FillRefused, whatever the reason was.
	Degraded Reason
	// StaleFor is how long ago a stale answer was invalidated.
	StaleFor time.Duration
	// Joined: another reader of this process led the load.
	Joined bool
	// Waited: another instance held the lease for a while.
	Waited bool
	// StoredL1: this read, or the one it joined, filled L1.
	StoredL1 bool
}

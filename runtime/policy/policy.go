// Package policy says what one namespace wants: lifetimes, refresh windows,
// limits, and what to do when something fails.
//
// It owns the defaults and the relations between fields that must hold. A
// Policy is plain data: the zero value of every field means the documented
// default, Off switches a feature off, Forever is a lifetime without end.
// Validate reports every fault at once, by the path of the field as it is
// written in a configuration file.
package policy

import (
	"time"

	"github.com/cocache/cocache/runtime/loader"
)

// Forever is the lifetime of what does not expire.
const Forever = loader.Forever

// Off switches off what would otherwise be on by default, or says in so many
// words what is off anyway.
const Off time.Duration = -1

// Failure is what happens when Redis does.
type Failure string

const (
	// Degrade loads from the source without Redis (reads).
	Degrade Failure = "degrade"
	// Retry goes on trying in the background (invalidations).
	Retry Failure = "retry"
	// Error tells the caller.
	Error Failure = "error"
)

// Unknown is what a read answers that could learn nothing.
type Unknown string

const (
	ErrorUnknown  Unknown = "error"
	AbsentUnknown Unknown = "absent"
)

// Codec names what a value is in Redis and on the wire.
type Codec string

const (
	JSON    Codec = "json"
	String  Codec = "string"
	Msgpack Codec = "msgpack"
	Raw     Codec = "raw"
)

// Policy is one namespace of type cache. Durations are positive, Off or
// Forever where the comment says so.
type Policy struct {
	TTL       time.Duration // of a filled value; 10m; or Forever
	MaxTTL    time.Duration // longest ttl a caller or loader may name; Forever
	TTLJitter int           // percent by which fills spread their ttl both ways; 10; or NoJitter
	AbsentTTL time.Duration // of a negative entry; 30s; or Forever

	// RefreshWindow is the last part of a value's life in which a hit starts
	// a refresh in the background; Off.
	RefreshWindow time.Duration

	// StaleTTL is how long a value may be shown on after its invalidation, to
	// readers who would otherwise wait for the load; Off.
	StaleTTL time.Duration

	LeaseTTL  time.Duration // how long one instance may load before another takes over; 10s, at most 1h
	LeaseWait time.Duration // how long a reader waits for another's load; 3s; or Off
	LeasePoll Poll

	Local Local
	Loads Loads

	ReadFailure       Failure // Degrade (default) or Error
	InvalidateFailure Failure // Retry (default) or Error
	UnknownRead       Unknown // ErrorUnknown (default) or AbsentUnknown
	Codec             Codec   // JSON
	Limits            Limits
}

// NoJitter is a TTLJitter of nothing.
const NoJitter = -1

// Poll is the growing pause between two looks at another's lease; equal ends
// make it fixed.
type Poll struct {
	Min time.Duration // 2ms
	Max time.Duration // 50ms
}

// Local is the in-process tier.
type Local struct {
	Disabled       bool
	MaxAge         time.Duration // of a copy that L1 holds too; 5m; never Forever
	DegradedMaxAge time.Duration // of a copy that bypassed L1; 10s; never Forever
	MaxEntries     int           // 10,000
	MaxBytes       int64         // keys and values; 64 MiB
}

// Loads bounds the calls of the loader.
type Loads struct {
	Timeout       time.Duration // of one whole load; 30s
	MaxConcurrent int           // 64
	MaxQueued     int           // 256; or NoQueue
	QueueWait     time.Duration // 1s

	// BatchWindow is for how long a single load waits for others, to be one call of a
	// loader that takes batches; Off. BatchKeys is how many such a call takes.
	BatchWindow time.Duration
	BatchKeys   int // 100
}

// NoQueue is a MaxQueued of nothing: a load that finds no place is refused.
const NoQueue = -1

// Limits bound what one caller may hand in.
type Limits struct {
	MaxKeyBytes   int   // 4 KiB
	MaxValueBytes int64 // 8 MiB
	MaxBatchKeys  int   // 1,000
}

// Default is the policy of a namespace that asks for nothing.
func Default() Policy { return Policy{}.WithDefaults() }

// WithDefaults fills every zero field with its default.
func (p Policy) WithDefaults() Policy {
	or(&p.TTL, 10*time.Minute)
	or(&p.MaxTTL, Forever)
	or(&p.TTLJitter, 10)
	or(&p.AbsentTTL, 30*time.Second)
	or(&p.RefreshWindow, Off)
	or(&p.StaleTTL, Off)
	or(&p.LeaseTTL, 10*time.Second)
	or(&p.LeaseWait, 3*time.Second)
	or(&p.LeasePoll.Min, 2*time.Millisecond)
	or(&p.LeasePoll.Max, max(50*time.Millisecond, p.LeasePoll.Min))
	or(&p.Local.MaxAge, 5*time.Minute)
	or(&p.Local.DegradedMaxAge, 10*time.Second)
	or(&p.Local.MaxEntries, 10_000)
	or(&p.Local.MaxBytes, 64<<20)
	or(&p.Loads.Timeout, 30*time.Second)
	or(&p.Loads.MaxConcurrent, 64)
	or(&p.Loads.MaxQueued, 256)
	or(&p.Loads.QueueWait, time.Second)
	or(&p.Loads.BatchWindow, Off)
	or(&p.Loads.BatchKeys, 100)
	or(&p.ReadFailure, Degrade)
	or(&p.InvalidateFailure, Retry)
	or(&p.UnknownRead, ErrorUnknown)
	or(&p.Codec, JSON)
	or(&p.Limits.MaxKeyBytes, 4<<10)
	or(&p.Limits.MaxValueBytes, 8<<20)
	or(&p.Limits.MaxBatchKeys, 1000)
	return p
}

func or[T comparable](field *T, def T) {
	var zero T
	if *field == zero {
		*field = def
	}
}

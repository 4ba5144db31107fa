// Package loader is the contract between the cache and whatever produces a
// tenant's values: a Go function, a script, a Wasm module or a process.
//
// It owns the request, the result and the one error type that a loader's
// failure takes, and nothing else: it knows no engine, no Redis and no cache.
// The cache treats a loader as slow, unreliable and possibly hostile; a loader
// may assume only what this file says.
package loader

import (
	"context"
	"math"
	"time"
)

// Forever is the time to live of a value that does not expire.
const Forever time.Duration = math.MaxInt64

// Request asks for one key.
type Request struct {
	// Key is the key's bytes, exactly as the reader gave them; it may be empty
	// and need not be UTF-8.
	Key string
	// PreviousVersion is the version of the value that is being replaced, 0
	// when there is none or it is not known.
	PreviousVersion uint64
	// Background is true for a refresh that no reader waits for.
	Background bool
}

// Status is what a loader found.
type Status uint8

const (
	// Value: the key exists; Result.Value is its value, which may be empty.
	Value Status = iota
	// Absent: the key does not exist at the source. Only this makes a
	// negative entry; a failure is an error.
	Absent
)

// Result is a loader's answer for one key.
type Result struct {
	Status Status
	// Value is encoded by the namespace's codec. The loader gives it away and
	// does not touch it again.
	Value []byte
	// TTL is how long the answer may be kept: 0 leaves it to the namespace,
	// Forever is without end, negative is an error.
	TTL time.Duration
	// Version orders values of one key; 0 means none.
	Version uint64
	// ContentType of a raw value; empty for the codec's own.
	ContentType string
	// NoStore asks the cache to hand the value to its readers and keep it
	// nowhere.
	NoStore bool
}

// Loader reads one key from the source.
//
// Load is called from many goroutines at once, with a context that carries the
// deadline and the values (trace, principal) of the reader that leads the
// load. It must return soon after the context ends. A failure of the loader
// itself is an *Error; any other error reaches the readers as it is.
type Loader interface {
	Load(ctx context.Context, req Request) (Result, error)
}

// Outcome is one key's part of a batch: a result, or the error of that key
// alone.
type Outcome struct {
	Result Result
	Err    error
}

// BatchLoader is a Loader that can read several keys in one call.
//
// LoadAll answers one Outcome per request, in the order of the requests. An
// error beside them fails every key.
type BatchLoader interface {
	Loader
	LoadAll(ctx context.Context, reqs []Request) ([]Outcome, error)
}

// Func makes a Loader of a function.
type Func func(ctx context.Context, req Request) (Result, error)

// Load calls f.
func (f Func) Load(ctx context.Context, req Request) (Result, error) { return f(ctx, req) }

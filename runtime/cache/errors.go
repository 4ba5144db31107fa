package cache

import (
	"errors"
	"fmt"
	"time"

	"github.com/cocache/cocache/runtime/policy"
)

var (
	// ErrRecursion: a loader asked for a key that its own load is loading.
	ErrRecursion = errors.New("a loader may not read a key that it is being asked for")
	// ErrClosed: the cache is closed or closing.
	ErrClosed = errors.New("the namespace is closed")
)

// errPending: L1 may hold a value that this instance has invalidated.
var errPending = errors.New("an invalidation of the key has not reached redis yet")

// ReadError: Redis could not be read and nothing else may answer.
type ReadError struct{ Err error }

func (e *ReadError) Error() string { return "read: " + e.Err.Error() }
func (e *ReadError) Unwrap() error { return e.Err }

// WriteError: a write failed after its local effect; the caller decides
// whether to repeat it.
type WriteError struct {
	Op string
	// OutcomeUnknown: the write may have been carried out, or not.
	OutcomeUnknown bool
	Err            error
}

func (e *WriteError) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }
func (e *WriteError) Unwrap() error { return e.Err }

// OverloadedError: no place for another load came free in time.
type OverloadedError struct {
	Limit string // the setting that was hit
	Value string
	// RetryAfter is how long the queue was waited for, a fair guess of when
	// to come back.
	RetryAfter time.Duration
}

func (e *OverloadedError) Error() string {
	return fmt.Sprintf("too many loads: %s = %s", e.Limit, e.Value)
}

// LoadTimeoutError: the load took longer than loads.timeout.
type LoadTimeoutError struct{ Timeout time.Duration }

func (e *LoadTimeoutError) Error() string {
	return "the load did not end in time: loads.timeout = " + policy.Text(e.Timeout)
}

// InvalidError: the caller's argument cannot be taken.
type InvalidError struct {
	What  string // "key", "value", "ttl" or "content-type"
	Limit string // the setting that was hit, if one was
	Value string // its value
	Text  string
}

func (e *InvalidError) Error() string { return "invalid " + e.What + ": " + e.Text }

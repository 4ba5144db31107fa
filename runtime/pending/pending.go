// Package pending is the queue of one namespace's invalidations that failed and are
// tried again.
//
// It owns who is in it, how often each was tried and when it is due, and the bounds
// of all that (PROTOCOL.md, "Writing"); trying is its user's. A write settles a
// failure only if it was sent after that was queued, so failures have identity:
// who writes asks for the failure first and settles that one.
package pending

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cocache/cocache/runtime/frame"
)

// Bounds of the queue and of the tries.
const (
	MaxKeys  = 10_000
	Attempts = 8
	first    = 100 * time.Millisecond
	last     = 10 * time.Second
	away     = 500 * time.Millisecond // between two looks while Redis is known to be away
)

// Queue is the failures of one namespace; the zero Queue is empty. It is safe for
// concurrent use.
type Queue struct {
	count atomic.Int64 // len(keys), for reads
	mu    sync.Mutex
	keys  map[string]*Failure // guarded by mu
	runs  bool                // guarded by mu; somebody works the queue
}

// Failure is one failed invalidation; its identity tells it from a later one of
// the same key.
type Failure struct {
	Key      string
	attempts int
	due      time.Time
}

// LastTry reports whether no attempt follows the next.
func (f *Failure) LastTry() bool { return f.attempts >= Attempts }

// Find is the key's failure, nil without one.
func (q *Queue) Find(key string) *Failure {
	if q.count.Load() == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.keys[key]
}

// Add queues the key anew; false when the queue is full. start is true when
// nobody works the queue yet: the caller must.
func (q *Queue) Add(key string) (queued, start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, again := q.keys[key]; !again && len(q.keys) >= MaxKeys {
		return false, false
	}
	if q.keys == nil {
		q.keys = map[string]*Failure{}
	}
	q.keys[key] = &Failure{Key: key, due: time.Now().Add(first)}
	q.count.Store(int64(len(q.keys)))
	start, q.runs = !q.runs, true
	return true, start
}

// Settle takes failures off the queue that are still the ones given: a write
// sent after a key was queued, and no other, makes its invalidation needless.
func (q *Queue) Settle(failures ...*Failure) {
	if q.count.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, f := range failures {
		if f != nil && q.keys[f.Key] == f {
			delete(q.keys, f.Key)
		}
	}
	q.count.Store(int64(len(q.keys)))
}

// Due takes no more than a frame's worth of failures whose time has come; when
// there are none it says how long to wait, and 0 once the queue is empty and the
// retrier may end.
func (q *Queue) Due() (now []*Failure, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.keys) == 0 {
		q.runs = false
		return nil, 0
	}
	wait = last
	for _, f := range q.keys {
		left := time.Until(f.due)
		if left <= 0 && len(now) < frame.MaxKeys {
			now = append(now, f)
		}
		wait = min(wait, max(left, time.Millisecond))
	}
	return now, wait
}

// Away puts failures off whose attempt was not even sent, because Redis is known
// to be away: that is no attempt, and they must go out soon after it returns.
func (q *Queue) Away(failures []*Failure) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, f := range failures {
		f.due = time.Now().Add(away)
	}
}

// Failed puts failures off, and returns those that have used up their attempts,
// taken off the queue.
func (q *Queue) Failed(failures []*Failure) (given []*Failure) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, f := range failures {
		if q.keys[f.Key] != f {
			continue
		}
		if f.attempts++; f.attempts >= Attempts {
			delete(q.keys, f.Key)
			given = append(given, f)
			continue
		}
		f.due = time.Now().Add(min(first<<f.attempts, last))
	}
	q.count.Store(int64(len(q.keys)))
	return given
}

// Last takes up to a frame's worth of failures for their last attempt; when there
// are none the retrier may end.
func (q *Queue) Last() (failures []*Failure) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.runs = len(q.keys) > 0
	for _, f := range q.keys {
		if len(failures) == frame.MaxKeys {
			break
		}
		f.attempts = Attempts
		failures = append(failures, f)
	}
	return failures
}

// Abandon empties the queue, which nobody works.
func (q *Queue) Abandon() (keys int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys = len(q.keys)
	clear(q.keys)
	q.count.Store(0)
	q.runs = false
	return keys
}

// Len is how many keys are queued.
func (q *Queue) Len() int { return int(q.count.Load()) }

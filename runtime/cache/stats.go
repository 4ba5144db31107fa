package cache

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/cocache/cocache/runtime/channel"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/flight"
	"github.com/cocache/cocache/runtime/loader"
)

// Observer is told how long things took; its methods must be quick. Hits in L2
// are counted only, not timed.
type Observer interface {
	Read(source Source, took time.Duration)
	Load(took time.Duration)
}

type noObserver struct{}

func (noObserver) Read(Source, time.Duration) {}
func (noObserver) Load(time.Duration)         {}

// The words of the counters, in the order of their numbers.
const (
	leaseGranted = iota
	leaseTakenOver
	leaseTimedOut
	leaseReleased
	leaseReclaimed
	leaseWords
)

const (
	fillStored = iota
	fillRefused
	fillFailed
	fillWords
)

const (
	loadValue = iota
	loadAbsent
	loadRetry
	loadFailed
	loadLimited
	loadTimedOut
	loadRejected
	loadCanceled
	loadWords
)

const (
	refreshLoaded = iota
	refreshFollowed
	refreshGone
	refreshFailed
	refreshWords
)

const (
	writeApplied = iota
	writeRefused
	writeUnknown
	writeWords
)

const (
	opPut = iota
	opInvalidate
	opWords
)

var (
	leaseNames   = [leaseWords]string{"granted", "taken-over", "timed-out", "released", "reclaimed"}
	fillNames    = [fillWords]string{"stored", "refused", "failed"}
	loadNames    = [loadWords]string{"value", "absent", "retry", "error", "limit", "timeout", "rejected", "canceled"}
	refreshNames = [refreshWords]string{"loaded", "followed", "gone", "failed"}
	writeNames   = [writeWords]string{"applied", "refused", "unknown"}
	opNames      = [opWords]string{"put", "invalidate"}
	resetCauses  = [...]channel.Cause{channel.Subscribed, channel.Heartbeat, channel.BadFrame, channel.Audit, channel.Manual}
)

const (
	kinds   = int(Unpopulated) + 1
	reasons = int(PendingInvalidation) + 1
)

// counts are a Cache's counters; each only grows but for waiters.
type counts struct {
	hits       striped // the hot ones: values from L2
	reads      [Sources][kinds]atomic.Uint64
	readErrors atomic.Uint64
	degraded   [reasons]atomic.Uint64
	loads      [loadWords]atomic.Uint64
	leases     [leaseWords]atomic.Uint64
	fills      [fillWords]atomic.Uint64
	writes     [opWords][writeWords]atomic.Uint64
	refreshes  [refreshWords]atomic.Uint64
	resets     [len(resetCauses)]atomic.Uint64
	sent       atomic.Uint64
	received   atomic.Uint64
	dropped    atomic.Uint64
	waiters    atomic.Int64
}

// striped is a counter that many cores add to without sharing a cache line.
type striped [8]struct {
	n atomic.Uint64
	_ [56]byte
}

func (s *striped) add() { s[rand.Uint32()%uint32(len(s))].n.Add(1) }

func (s *striped) sum() uint64 {
	var sum uint64
	for i := range s {
		sum += s[i].n.Load()
	}
	return sum
}

func (c *counts) read(found Lookup) {
	if found.Source == FromL2 && found.Kind == Value {
		c.hits.add()
		return
	}
	c.reads[found.Source][found.Kind].Add(1)
}

func (c *counts) readOutcome(found Lookup, err error) {
	if err != nil {
		c.readErrors.Add(1)
		return
	}
	c.read(found)
}

func (c *counts) reset(cause channel.Cause) {
	for i, known := range resetCauses {
		if known == cause {
			c.resets[i].Add(1)
		}
	}
}

func (c *counts) write(op int, err error) {
	outcome := writeApplied
	switch {
	case err == nil:
	case outcomeUnknown(err):
		outcome = writeUnknown
	default:
		outcome = writeRefused
	}
	c.writes[op][outcome].Add(1)
}

func (c *Cache) countRejected() { c.counts.loads[loadRejected].Add(1) }

// observeLoad counts and times one load by how it ended.
func (c *Cache) observeLoad(began time.Time, loaded loaded, err error) {
	c.observer.Load(time.Since(began))
	c.counts.loads[loadOutcome(loaded, err)].Add(1)
}

func loadOutcome(loaded loaded, err error) int {
	var failure *loader.Error
	switch {
	case loaded.late:
		return loadTimedOut
	case err == nil && loaded.State == entry.Negative:
		return loadAbsent
	case err == nil:
		return loadValue
	case errors.Is(err, errOverdue):
		return loadTimedOut
	case errors.Is(err, context.Canceled), errors.Is(err, flight.ErrAbandoned):
		return loadCanceled
	case !errors.As(err, &failure):
		return loadFailed
	}
	switch failure.Kind {
	case loader.Limited:
		return loadLimited
	case loader.TimedOut:
		return loadTimedOut
	case loader.Retry:
		return loadRetry
	default:
		return loadFailed
	}
}

// Stats are a namespace's figures in this process, by the words that metrics
// use.
type Stats struct {
	Reads                      map[[2]string]uint64 // source, outcome
	Degraded                   map[string]uint64    // reason
	Loads                      map[string]uint64    // outcome
	Leases                     map[string]uint64    // outcome
	Fills                      map[string]uint64    // outcome
	Writes                     map[[2]string]uint64 // op, outcome
	Refreshes                  map[string]uint64    // outcome
	Resets                     map[string]uint64    // cause
	Sent, Received             uint64               // invalidations
	Dropped                    uint64               // invalidations given up
	Pending                    int                  // invalidations tried again
	LoadsInFlight, LoadsQueued int
	Waiters                    int
	L2Entries                  int
	L2Bytes                    int64
	L2Evictions                uint64
}

// Stats reads the figures.
func (c *Cache) Stats() Stats {
	n := &c.counts
	tier := c.l2.Stats()
	s := Stats{
		Reads:    map[[2]string]uint64{},
		Degraded: map[string]uint64{},
		Loads:    named(loadNames[:], n.loads[:]), Leases: named(leaseNames[:], n.leases[:]),
		Fills: named(fillNames[:], n.fills[:]), Refreshes: named(refreshNames[:], n.refreshes[:]),
		Writes: map[[2]string]uint64{}, Resets: map[string]uint64{},
		Sent: n.sent.Load(), Received: n.received.Load(),
		Dropped: n.dropped.Load(), Pending: c.pending.Len(),
		LoadsInFlight: c.places.running(), LoadsQueued: int(c.places.queued.Load()), Waiters: int(n.waiters.Load()),
		L2Entries: tier.Entries, L2Bytes: tier.Bytes, L2Evictions: tier.Evicted,
	}
	for source := range n.reads {
		for kind := range n.reads[source] {
			s.Reads[[2]string{sourceNames[source], kindNames[kind]}] = n.reads[source][kind].Load()
		}
	}
	s.Reads[[2]string{FromL2.String(), Value.String()}] = n.hits.sum()
	s.Reads[[2]string{FromNone.String(), "error"}] = n.readErrors.Load()
	for reason := RedisDown; int(reason) < reasons; reason++ {
		s.Degraded[reason.String()] = n.degraded[reason].Load()
	}
	for op := range n.writes {
		for outcome := range n.writes[op] {
			s.Writes[[2]string{opNames[op], writeNames[outcome]}] = n.writes[op][outcome].Load()
		}
	}
	for i, cause := range resetCauses {
		s.Resets[string(cause)] = n.resets[i].Load()
	}
	return s
}

func named(names []string, counters []atomic.Uint64) map[string]uint64 {
	m := make(map[string]uint64, len(names))
	for i, name := range names {
		m[name] = counters[i].Load()
	}
	return m
}

// Package flight merges concurrent loads of one key in this process into one.
//
// It owns the register of flights and the rule of who may join: a reader joins
// a flight only if that flight has not yet taken its stamp, or took it at or
// after the moment the reader came; otherwise the flight may carry what an
// invalidation the reader knows of has outdated, and the reader leads a new one
// (invariant I9). A flight leaves the register before it publishes and before
// it is cancelled, so nobody joins a finished or dying one. What a flight does
// is its leader's business.
package flight

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cocache/cocache/runtime/stamp"
)

// Serial numbers flights in the order in which they began, over all groups.
type Serial uint64

var serials atomic.Uint64

// Now is the serial of the latest flight.
func Now() Serial { return Serial(serials.Load()) }

// ErrAbandoned is the cause of a flight's cancellation when nobody waits for
// it any more.
var ErrAbandoned = errors.New("nobody waits for this load any more")

// Group is one namespace's register of flights; the zero Group is empty.
type Group[R any] struct {
	mu      sync.Mutex
	flights map[string]*Flight[R] // guarded by mu
}

// Flight is one load of one key. Its context has the values of its leader's but
// not its cancellation.
type Flight[R any] struct {
	Key     string
	serial  Serial
	ctx     context.Context
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed once result is set
	overdue chan struct{} // closed when it ran too long
	result  R
	offer   chan struct{} // closed once offered is set
	offered Offer[R]

	stage   stage       // guarded by Group.mu
	stamp   stamp.Stamp // guarded by Group.mu; set from stamped on
	callers int         // guarded by Group.mu
	asks    int         // guarded by Group.mu; numbers what the leader asked so far
}

// Offer is an answer that waiters may take before the flight ends. Ask is the
// number of the question that brought it: it suits those who came before that
// was asked.
type Offer[R any] struct {
	Ask    int
	Result R
}

type stage uint8

const (
	registered stage = iota
	stamped          // has taken its stamp
	begun            // the loader runs: no longer cancelled when abandoned
)

// Seat is a caller's place in a flight.
type Seat struct {
	Leads bool
	asks  int // asked before the caller came
}

// Came reports whether the caller had come before the question of that number
// was asked.
func (s Seat) Came(ask int) bool { return s.asks < ask }

// Join registers the caller, who saw the stamp noted when it came and joins only
// flights after a serial, with the key's flight, or makes a new flight that it
// leads. Each caller must Leave.
func (g *Group[R]) Join(ctx context.Context, key string, noted stamp.Stamp, after Serial) (*Flight[R], Seat) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.flights[key]; f != nil && f.serial > after && (f.stage < stamped || !f.stamp.Before(noted)) {
		f.callers++
		return f, Seat{asks: f.asks}
	}
	f := &Flight[R]{Key: key, serial: Serial(serials.Add(1)), callers: 1, done: make(chan struct{}), overdue: make(chan struct{}), offer: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if g.flights == nil {
		g.flights = make(map[string]*Flight[R])
	}
	g.flights[key] = f // an outdated flight keeps its callers
	return f, Seat{Leads: true}
}

// Ask numbers a question that the leader is about to ask, from 1.
func (g *Group[R]) Ask(f *Flight[R]) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	f.asks++
	return f.asks
}

// Offer hands out an answer before the end; only the first of a flight counts.
func (g *Group[R]) Offer(f *Flight[R], o Offer[R]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.offered.Ask == 0 {
		f.offered = o
		close(f.offer)
	}
}

// Stamped says that the flight has taken its stamp.
func (g *Group[R]) Stamped(f *Flight[R], s stamp.Stamp) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f.stage, f.stamp = stamped, s
}

// Begin says that the loader is about to run; false when the flight was
// abandoned before.
func (g *Group[R]) Begin(f *Flight[R]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.ctx.Err() != nil {
		return false
	}
	f.stage = begun
	return true
}

// Leave ends a caller's part in the flight. The last one to leave a flight
// whose loader has not begun takes it off the register and cancels it.
func (g *Group[R]) Leave(f *Flight[R]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.callers--; f.callers > 0 || f.stage == begun {
		return
	}
	g.removeLocked(f)
	f.cancel(ErrAbandoned)
}

// Overdue takes a flight that runs too long off the register and tells its
// callers.
func (g *Group[R]) Overdue(f *Flight[R]) {
	g.mu.Lock()
	g.removeLocked(f)
	g.mu.Unlock()
	close(f.overdue)
}

// Finish takes the flight off the register and then publishes its result.
func (g *Group[R]) Finish(f *Flight[R], result R) {
	g.mu.Lock()
	g.removeLocked(f)
	g.mu.Unlock()
	f.result = result
	close(f.done)
	f.cancel(nil)
}

// Len is the number of flights on the register.
func (g *Group[R]) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.flights)
}

// removeLocked takes f off by identity: a newer flight of the key stays.
func (g *Group[R]) removeLocked(f *Flight[R]) {
	if g.flights[f.Key] == f {
		delete(g.flights, f.Key)
	}
}

// Context is the flight's own.
func (f *Flight[R]) Context() context.Context { return f.ctx }

// Done is closed when the flight has published.
func (f *Flight[R]) Done() <-chan struct{} { return f.done }

// Overdue is closed when the flight ran too long.
func (f *Flight[R]) Overdue() <-chan struct{} { return f.overdue }

// WasOverdue reports whether the flight ran too long.
func (f *Flight[R]) WasOverdue() bool {
	select {
	case <-f.overdue:
		return true
	default:
		return false
	}
}

// Offered is closed when there is an Offer.
func (f *Flight[R]) Offered() <-chan struct{} { return f.offer }

// Offer is what was offered; valid once Offered is closed.
func (f *Flight[R]) Offer() Offer[R] { return f.offered }

// Result is what was published; valid once Done is closed.
func (f *Flight[R]) Result() R { return f.result }

// Package channel receives the invalidations of every namespace over one
// subscription connection per process.
//
// It guarantees that a namespace is told whenever it may have missed a message:
// at each confirmed subscription, when the connection is lost or a heartbeat is
// not answered in time, for a message that cannot be read, and when an
// announcement tells that one was lost. It drops nothing silently and knows
// nothing of stamps or copies; a Handler does what it is told, quickly, on the
// connection's own goroutine.
package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/cocache/cocache/runtime/audit"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/frame"
	"github.com/cocache/cocache/runtime/notice"
	"github.com/redis/rueidis"
)

// ErrTaken: somebody in this process listens to the channel already.
var ErrTaken = errors.New("this process listens to it already")

// Cause says why a namespace is reset.
type Cause string

const (
	Subscribed Cause = "subscribed" // messages before the confirmation may be missing
	Heartbeat  Cause = "heartbeat"  // the connection was lost or did not answer
	BadFrame   Cause = "frame"      // a message could not be read
	Audit      Cause = "audit"      // a message was lost, as its sender's announcement tells
	Manual     Cause = "manual"     // somebody asked for it; never sent by a Subscriber
)

// Handler is a namespace.
type Handler interface {
	// Changed: the frame's keys were invalidated or written.
	Changed(f frame.Frame)
	// Reset: any key may have changed.
	Reset(cause Cause)
}

// Source is where messages come from; *l1.Client is one.
type Source interface {
	// Subscriber gives a dedicated connection.
	Subscriber() (rueidis.DedicatedClient, func(), error)
	// Pulse is the latest sign of life that this process itself published.
	Pulse() *audit.Pulse
	// Cluster reports whether messages come over several servers, of which some
	// may fall silent.
	Cluster() bool
}

// Options of a Subscriber.
type Options struct {
	Heartbeat time.Duration // 5s
	Timeout   time.Duration // of a command; 1s
	Logger    *slog.Logger  // slog.Default()
}

// Subscriber holds the subscription connection and reconnects it.
type Subscriber struct {
	source  Source
	opts    Options
	changed chan struct{} // holds one when channels came or went
	audits  chan struct{} // holds one when there is something to audit
	stop    context.CancelFunc
	stopped sync.WaitGroup

	unreadable notice.Notice // messages
	refused    notice.Notice // subscriptions

	mu         sync.Mutex
	channels   map[string]*subscription // guarded by mu
	connection int                      // guarded by mu; number of the living connection
}

type subscription struct {
	node      entry.NodeID // of the namespace in this process
	handler   Handler
	confirmed chan struct{} // closed at the first confirmation

	up    bool            // guarded by Subscriber.mu
	audit *audit.Receiver // guarded by Subscriber.mu
	since time.Time       // guarded by Subscriber.mu; of the confirmation
	pulse time.Time       // guarded by Subscriber.mu; when this process last heard itself
}

// Open starts a Subscriber.
func Open(source Source, opts Options) *Subscriber {
	if opts.Heartbeat <= 0 {
		opts.Heartbeat = 5 * time.Second
	}
	if opts.Timeout <= 0 {
		opts.Timeout = time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Subscriber{source: source, opts: opts, stop: stop,
		changed:  make(chan struct{}, 1),
		audits:   make(chan struct{}, 1),
		channels: map[string]*subscription{}}
	s.stopped.Go(func() { s.run(ctx) })
	return s
}

// Close ends the connection.
func (s *Subscriber) Close() {
	s.stop()
	s.stopped.Wait()
}

// Add subscribes h, which writes as node, to a channel and waits up to a command
// timeout for the confirmation, so that its reset does not hit a warm cache. An
// error says only that it has not come yet: the subscription is kept up from now on.
func (s *Subscriber) Add(ctx context.Context, channel string, node entry.NodeID, h Handler) error {
	sub := &subscription{node: node, handler: h, confirmed: make(chan struct{}),
		audit: audit.NewReceiver(s.opts.Heartbeat, time.Now())}
	s.mu.Lock()
	if _, taken := s.channels[channel]; taken {
		s.mu.Unlock()
		return fmt.Errorf("subscribe %s: %w", channel, ErrTaken)
	}
	s.channels[channel] = sub
	s.mu.Unlock()
	signal(s.changed)

	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	select {
	case <-sub.confirmed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("subscribe %s: not confirmed: %w", channel, ctx.Err())
	}
}

// Remove ends node's subscription; its handler is not called again once Remove has
// returned and the call under way is over.
func (s *Subscriber) Remove(channel string, node entry.NodeID) {
	s.mu.Lock()
	if sub := s.channels[channel]; sub != nil && sub.node == node {
		delete(s.channels, channel)
	}
	s.mu.Unlock()
	signal(s.changed)
}

// Reliance is for how long a copy made now may live as far as the channel goes: one
// heartbeat while its messages do not arrive, two while a loss might go unnoticed
// because its senders are not known yet, and as long as it likes otherwise.
func (s *Subscriber) Reliance(channel string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch sub := s.channels[channel]; {
	case sub == nil || !sub.up:
		return s.opts.Heartbeat
	case sub.audit.OnTrial(time.Now()):
		return 2 * s.opts.Heartbeat
	default:
		return math.MaxInt64
	}
}

// Up reports whether every channel is confirmed.
func (s *Subscriber) Up() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.channels {
		if !sub.up {
			return false
		}
	}
	return true
}

// signal leaves word on a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is enough
	}
}

// Package channel receives the invalidations of every namespace over one
// subscription connection per process.
//
// It guarantees that a namespace is told whenever it may have missed a message:
// at each confirmed subscription, when the connection is lost or a heartbeat is
// not answered in time, and for a message that cannot be read. It drops
// nothing silently and knows nothing of stamps or copies; a Handler does what
// it is told, quickly, on the connection's own goroutine.
package channel

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cocache/cocache/runtime/frame"
	"github.com/redis/rueidis"
)

// Cause says why a namespace is reset.
type Cause string

const (
	Subscribed Cause = "subscribed" // messages before the confirmation may be missing
	Heartbeat  Cause = "heartbeat"  // the connection was lost or did not answer
	BadFrame   Cause = "frame"      // a message could not be read
	Manual     Cause = "manual"     // somebody asked for it; never sent by a Subscriber
)

// Handler is a namespace.
type Handler interface {
	// Changed: the frame's keys were invalidated or written.
	Changed(f frame.Frame)
	// Reset: any key may have changed.
	Reset(cause Cause)
}

// Source gives dedicated connections.
type Source interface {
	Subscriber() (rueidis.DedicatedClient, func(), error)
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
	changes chan change
	stop    context.CancelFunc
	stopped sync.WaitGroup

	mu         sync.Mutex
	channels   map[string]*subscription // guarded by mu
	connection int                      // guarded by mu; number of the living connection
}

type subscription struct {
	handler   Handler
	confirmed chan struct{} // closed at the first confirmation
	up        bool          // guarded by Subscriber.mu
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
		changes:  make(chan change),
		channels: map[string]*subscription{}}
	s.stopped.Go(func() { s.run(ctx) })
	return s
}

// Close ends the connection.
func (s *Subscriber) Close() {
	s.stop()
	s.stopped.Wait()
}

// Add subscribes h to a channel and waits up to a command timeout for the
// confirmation, so that its reset does not hit a warm cache. An error says only
// that it has not come yet: the subscription is kept up from now on.
func (s *Subscriber) Add(ctx context.Context, channel string, h Handler) error {
	sub := &subscription{handler: h, confirmed: make(chan struct{})}
	s.mu.Lock()
	if _, taken := s.channels[channel]; taken {
		s.mu.Unlock()
		return fmt.Errorf("subscribe %s: there already", channel)
	}
	s.channels[channel] = sub
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	s.tell(ctx, change{channel, true})
	select {
	case <-sub.confirmed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("subscribe %s: not confirmed: %w", channel, ctx.Err())
	}
}

// Remove ends a subscription; its handler is not called again once Remove has
// returned and the call under way is over.
func (s *Subscriber) Remove(ctx context.Context, channel string) {
	s.mu.Lock()
	delete(s.channels, channel)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	s.tell(ctx, change{channel, false})
}

// Confirmed reports whether messages on the channel can be relied on to arrive,
// all since its last Reset.
func (s *Subscriber) Confirmed(channel string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.channels[channel]
	return sub != nil && sub.up
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

// change is a channel to take up or give up.
type change struct {
	channel   string
	subscribe bool
}

// tell hands a change to the connection, if there is one; a new connection
// subscribes to all channels anyway.
func (s *Subscriber) tell(ctx context.Context, c change) {
	select {
	case s.changes <- c:
	case <-ctx.Done():
	}
}

package channel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cocache/cocache/runtime/frame"
	"github.com/redis/rueidis"
)

// Pauses between two tries to connect.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// run keeps a connection until ctx ends.
func (s *Subscriber) run(ctx context.Context) {
	pause := firstRetry
	for ctx.Err() == nil {
		opened := time.Now()
		s.serve(ctx)
		if time.Since(opened) > s.opts.Heartbeat {
			pause = firstRetry
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			pause = min(2*pause, lastRetry)
		}
	}
}

// serve keeps one connection until it fails. The namespaces are told before
// the connection is closed, which takes a second when nobody answers on it.
func (s *Subscriber) serve(ctx context.Context) {
	conn, giveUp, err := s.source.Subscriber()
	if err != nil {
		return
	}
	defer giveUp()
	defer conn.Close()
	if err := s.follow(ctx, conn); ctx.Err() == nil && s.down() {
		s.opts.Logger.Warn("invalidation channel lost, reconnecting", "error", err)
	}
}

// follow subscribes and listens on one connection until it fails.
func (s *Subscriber) follow(ctx context.Context, conn rueidis.DedicatedClient) error {
	s.mu.Lock()
	s.connection++
	number := s.connection
	s.mu.Unlock()
	lost := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { s.message(m.Channel, m.Message) },
		OnSubscription: func(sub rueidis.PubSubSubscription) {
			if sub.Kind == "subscribe" {
				s.confirm(number, sub.Channel)
			}
		},
	})
	l := &link{conn: conn, timeout: s.opts.Timeout, asked: map[string]bool{}}
	if err := l.subscribe(ctx, s.names()...); err != nil {
		return err
	}
	heartbeat := time.NewTicker(s.opts.Heartbeat)
	defer heartbeat.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-lost:
			return fmt.Errorf("connection lost: %w", err)
		case <-heartbeat.C:
			err = s.beat(ctx, l)
		case c := <-s.changes:
			err = l.apply(ctx, c)
		}
		if err != nil {
			return err
		}
	}
}

func (s *Subscriber) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.channels))
}

// link is one connection and what it was asked to subscribe to: once each,
// because every confirmation resets the namespace.
type link struct {
	conn    rueidis.DedicatedClient
	timeout time.Duration
	asked   map[string]bool
}

func (l *link) apply(ctx context.Context, c change) error {
	if c.subscribe {
		return l.subscribe(ctx, c.channel)
	}
	delete(l.asked, c.channel)
	return l.do(ctx, l.conn.B().Unsubscribe().Channel(c.channel).Build())
}

func (l *link) subscribe(ctx context.Context, channels ...string) error {
	channels = slices.DeleteFunc(channels, func(channel string) bool { return l.asked[channel] })
	if len(channels) == 0 {
		return nil
	}
	for _, channel := range channels {
		l.asked[channel] = true
	}
	return l.do(ctx, l.conn.B().Subscribe().Channel(channels...).Build())
}

func (l *link) do(ctx context.Context, command rueidis.Completed) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return l.conn.Do(ctx, command).Error()
}

var errUnconfirmed = errors.New("a subscription is not confirmed")

// beat proves that the connection answers, not only that it can be written to.
func (s *Subscriber) beat(ctx context.Context, l *link) error {
	if err := l.do(ctx, l.conn.B().Ping().Build()); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for channel, sub := range s.channels {
		if l.asked[channel] != sub.up { // or given up by a Remove that crossed an Add
			return errUnconfirmed
		}
	}
	return nil
}

// confirm: from here on messages arrive; those before may be missing, so the
// namespace is reset before the channel counts as confirmed. A confirmation that
// a given up connection brings late counts for nothing.
func (s *Subscriber) confirm(connection int, channel string) {
	sub := s.current(connection, channel)
	if sub == nil {
		return
	}
	sub.handler.Reset(Subscribed)
	s.mu.Lock()
	defer s.mu.Unlock()
	if connection != s.connection {
		return // lost meanwhile
	}
	sub.up = true
	if !closed(sub.confirmed) {
		close(sub.confirmed)
	}
}

// current is the channel's subscription, nil when the connection is no longer
// the living one.
func (s *Subscriber) current(connection int, channel string) *subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	if connection != s.connection {
		return nil
	}
	return s.channels[channel]
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// down tells every namespace that had messages that it has none now; false
// when there was none to tell.
func (s *Subscriber) down() bool {
	s.mu.Lock()
	s.connection++
	var lost []Handler
	for _, sub := range s.channels {
		if sub.up {
			sub.up = false
			lost = append(lost, sub.handler)
		}
	}
	s.mu.Unlock()
	for _, h := range lost {
		h.Reset(Heartbeat)
	}
	return len(lost) > 0
}

func (s *Subscriber) message(channel, text string) {
	s.mu.Lock()
	sub := s.channels[channel]
	s.mu.Unlock()
	if sub == nil {
		return
	}
	f, err := frame.Decode(text)
	if err != nil {
		s.opts.Logger.Warn("unreadable invalidation, resetting the namespace", "channel", channel, "error", err)
		sub.handler.Reset(BadFrame)
		return
	}
	sub.handler.Changed(f)
}

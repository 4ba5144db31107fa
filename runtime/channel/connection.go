package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/cocache/cocache/runtime/audit"
	"github.com/cocache/cocache/runtime/frame"
	"github.com/cocache/cocache/runtime/notice"
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
	l := &link{conn: conn, timeout: s.opts.Timeout, refused: &s.refused, log: s.opts.Logger, asked: map[string]*subscription{}}
	if err := l.follow(ctx, s.wanted()); err != nil {
		return err
	}
	heartbeat := time.NewTicker(s.opts.Heartbeat)
	defer heartbeat.Stop()
	var audit <-chan time.Time // when the next is due; nil: none
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-lost:
			return errors.Join(errLost, err)
		case <-heartbeat.C:
			err = s.beat(ctx, l)
		case <-s.audits:
			if audit == nil { // past the next heartbeat, not with it: both would be due at once
				audit = time.After(s.opts.Heartbeat + s.opts.Heartbeat/auditsPerHeartbeat/2)
			}
		case <-audit:
			if audit = nil; s.auditAll() {
				audit = time.After(s.opts.Heartbeat / auditsPerHeartbeat)
			}
		case <-s.changed:
			err = l.follow(ctx, s.wanted())
		}
		if err != nil {
			return err
		}
	}
}

// wanted are the subscriptions as they should be.
func (s *Subscriber) wanted() map[string]*subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.channels)
}

// link is one connection and what it was asked to subscribe to: once each,
// because every confirmation resets the namespace.
type link struct {
	conn    rueidis.DedicatedClient
	timeout time.Duration
	asked   map[string]*subscription
	refused *notice.Notice
	log     *slog.Logger
	pulse   *audit.Pulse // as of the last heartbeat; to be heard by the next
}

// follow subscribes to what is wanted and was not asked for, and ends what is not
// wanted any more.
func (l *link) follow(ctx context.Context, wanted map[string]*subscription) error {
	var come, gone []string
	for channel, sub := range wanted {
		if l.asked[channel] != sub {
			come = append(come, channel)
		}
	}
	for channel := range l.asked {
		if wanted[channel] == nil {
			gone = append(gone, channel)
		}
	}
	l.asked = wanted
	if len(come) > 0 {
		if err := l.subscribe(ctx, come); err != nil {
			return err
		}
	}
	if len(gone) > 0 {
		return l.do(ctx, l.conn.B().Unsubscribe().Channel(gone...).Build())
	}
	return nil
}

// subscribe asks for channels together and, where the server says no to that, one
// by one, so that a channel which may not be heard takes no other's messages.
func (l *link) subscribe(ctx context.Context, channels []string) error {
	err := l.do(ctx, l.conn.B().Subscribe().Channel(channels...).Build())
	if !said(err) {
		return err
	}
	for _, channel := range channels {
		switch err := l.do(ctx, l.conn.B().Subscribe().Channel(channel).Build()); {
		case said(err):
			l.refuse(channel, err)
		case err != nil:
			return err
		}
	}
	return nil
}

// refuse notes a channel that may not be heard; it is asked for again at the next
// heartbeat.
func (l *link) refuse(channel string, err error) {
	delete(l.asked, channel)
	if l.refused.Due() {
		l.log.Warn("the invalidations of a namespace may not be heard", "channel", channel, "error", err)
	}
}

// said reports whether err is what the server said.
func said(err error) bool {
	_, ok := rueidis.IsRedisErr(err)
	return ok
}

func (l *link) do(ctx context.Context, command rueidis.Completed) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return l.conn.Do(ctx, command).Error()
}

var (
	errLost        = errors.New("connection lost")
	errUnconfirmed = errors.New("a subscription is not confirmed")
	errDeaf        = errors.New("what this process publishes does not come back")
	errSilenced    = errors.New("an instance that was heard at every heartbeat is heard no more")
)

// beat proves that the connection answers, not only that it can be written to,
// and that messages come over it.
func (s *Subscriber) beat(ctx context.Context, l *link) error {
	if err := l.do(ctx, l.conn.B().Ping().Build()); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	if err := l.follow(ctx, s.wanted()); err != nil {
		return err
	}
	cluster := s.source.Cluster()
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for channel, sub := range s.channels {
		switch {
		case l.asked[channel] == sub && !sub.up:
			return errUnconfirmed
		case cluster && sub.audit.Silenced(now):
			return errSilenced
		}
	}
	if s.deafLocked(l.pulse) {
		return errDeaf
	}
	l.pulse = s.source.Pulse()
	return nil
}

// deafLocked reports whether a sign of life of this process should have come by
// now and has not.
func (s *Subscriber) deafLocked(p *audit.Pulse) bool {
	if p == nil {
		return false
	}
	sub := s.channels[p.Channel]
	return sub != nil && sub.up && sub.node == p.Node && p.At.After(sub.since) && sub.pulse.Before(p.At)
}

// auditsPerHeartbeat is how often at most every channel is looked at.
const auditsPerHeartbeat = 5

// auditAll resets the namespaces that have lost a message; more tells that there
// are announcements whose time has not come.
func (s *Subscriber) auditAll() (more bool) {
	now := time.Now()
	s.mu.Lock()
	lost := map[string]*subscription{}
	for channel, sub := range s.channels {
		if sub.up && !sub.audit.Complete(now) {
			lost[channel] = sub
		}
		more = more || sub.audit.Pending()
	}
	s.mu.Unlock()
	for channel, sub := range lost {
		s.opts.Logger.Warn("an invalidation was lost, resetting the namespace", "channel", channel)
		s.reset(sub, Audit)
	}
	return more
}

// reset begins a new account, before the copies made under the old one are
// dropped.
func (s *Subscriber) reset(sub *subscription, cause Cause) {
	s.mu.Lock()
	sub.audit.Restart(time.Now())
	s.mu.Unlock()
	sub.handler.Reset(cause)
}

// confirm: from here on messages arrive; those before may be missing, so the
// namespace is reset before the channel counts as confirmed. A confirmation that
// a given up connection brings late counts for nothing.
func (s *Subscriber) confirm(connection int, channel string) {
	sub := s.current(connection, channel)
	if sub == nil {
		return
	}
	s.reset(sub, Subscribed)
	s.mu.Lock()
	defer s.mu.Unlock()
	if connection != s.connection {
		return // lost meanwhile
	}
	sub.up, sub.since = true, time.Now()
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
	var lost []*subscription
	for _, sub := range s.channels {
		if sub.up {
			sub.up = false
			lost = append(lost, sub)
		}
	}
	s.mu.Unlock()
	for _, sub := range lost {
		s.reset(sub, Heartbeat)
	}
	return len(lost) > 0
}

func (s *Subscriber) message(channel, text string) {
	f, err := frame.Decode(text)
	s.mu.Lock()
	sub := s.channels[channel]
	if sub != nil && err == nil {
		s.hearLocked(sub, f)
	}
	s.mu.Unlock()
	switch {
	case sub == nil:
	case err != nil:
		if s.unreadable.Due() {
			s.opts.Logger.Warn("a message cannot be read or asks for it: resetting the namespace", "channel", channel, "error", err)
		}
		s.reset(sub, BadFrame)
	case f.Announcement == nil:
		sub.handler.Changed(f)
	}
}

func (s *Subscriber) hearLocked(sub *subscription, f frame.Frame) {
	now := time.Now()
	sub.audit.Hear(f, now)
	if f.Announcement == nil {
		return
	}
	if f.Sender == sub.node {
		sub.pulse = now
	}
	signal(s.audits)
}

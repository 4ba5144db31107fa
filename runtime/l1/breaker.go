package l1

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// ErrDown: Redis did not answer the last commands, and this one was not sent.
var ErrDown = errors.New("redis does not answer")

// Bounds of the breaker.
const (
	breakAfter = 3 // failures in a row
	firstProbe = 100 * time.Millisecond
	lastProbe  = time.Second
)

// breaker keeps commands from a Redis that does not answer, so that only the
// first few wait for their timeout. While it is open one probe at a time asks
// whether Redis is back.
type breaker struct {
	mu       sync.Mutex
	failures int  // guarded by mu; in a row
	open     bool // guarded by mu
}

func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// record counts one answer; true when it opened the breaker. One that is sure needs
// no others.
func (b *breaker) record(answered, sure bool) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answered && !sure {
		b.failures = 0
		return false
	}
	b.failures++
	if b.open || b.failures < breakAfter && !sure {
		return false
	}
	b.open = true
	return true
}

// close lets commands through again; the next failure opens it at once.
func (b *breaker) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open, b.failures = false, breakAfter-1
}

// unanswered reports whether err says that the server as a whole cannot serve:
// no answer, no connection, or one of the errors of a server that is loading,
// busy with a script, or no master any more.
func unanswered(err error) bool {
	if err == nil || errors.Is(err, ErrLate) || errors.Is(err, errNotSent) {
		return false
	}
	answer, ok := rueidis.IsRedisErr(err)
	return !ok || answer.IsLoading() || isReadOnly(answer) || hasPrefix(answer, "BUSY ") || hasPrefix(answer, "MASTERDOWN ")
}

// answers reports whether err came over a connection that is as good as any:
// the server is loading or busy.
func answers(err error) bool {
	answer, ok := rueidis.IsRedisErr(err)
	return ok && !isReadOnly(answer)
}

func isReadOnly(e *rueidis.RedisError) bool { return hasPrefix(e, "READONLY ") }

func hasPrefix(e *rueidis.RedisError, prefix string) bool {
	text := e.Error()
	return len(text) >= len(prefix) && text[:len(prefix)] == prefix
}

// impatient reports whether the caller's own context ended, or would have before
// the command's timeout: that says nothing of Redis.
func impatient(caller, command context.Context) bool {
	own, ok := caller.Deadline()
	timeout, _ := command.Deadline()
	return caller.Err() != nil || ok && !own.After(timeout)
}

// judge records how calls went and, when Redis does not answer, starts asking
// for it; so it does when one connection leads to a replica, though others may lead
// to the master. It is not for a cluster, of which one silent node is not all.
func (c *Client) judge(errs []error) {
	answered, replica := false, false
	var last error
	for _, err := range errs {
		if !unanswered(err) {
			answered = true
			continue
		}
		last = err
		if e, ok := rueidis.IsRedisErr(err); ok && isReadOnly(e) {
			replica = true
		}
	}
	if c.breaker.record(answered, replica) {
		c.opts.Logger.Warn("redis does not answer, going on without it", "error", last)
		c.background(func(ctx context.Context) { c.recover(ctx, !answers(last)) })
	}
}

// recover probes until Redis runs a script again. Where nothing answered the
// connections are made anew, because those that the library holds may be dead
// without knowing; so they are where a replica answered, since whatever stands
// before Redis may lead to the new master by now.
func (c *Client) recover(ctx context.Context, redial bool) {
	began := time.Now()
	for pause := firstProbe; ; pause = min(2*pause, lastProbe) {
		if !wait(ctx, pause) {
			return
		}
		if redial && !c.redial(ctx) {
			continue
		}
		if c.probe(ctx, c.conn.Load()) == nil {
			c.breaker.close()
			c.opts.Logger.Info("redis answers again", "after", time.Since(began).Round(time.Millisecond))
			return
		}
	}
}

func (c *Client) redial(ctx context.Context) bool {
	conn, err := c.dialClient(ctx)
	if err != nil {
		return false
	}
	old := c.conn.Swap(conn)
	end := func(context.Context) { // which takes a second where nobody answers
		c.recall() // the subscription listens to whom the commands left
		old.Close()
	}
	if !c.background(end) {
		end(ctx)
	}
	return true
}

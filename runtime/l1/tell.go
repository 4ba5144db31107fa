package l1

import (
	"context"
	"fmt"
	"time"

	"github.com/cocache/cocache/runtime/frame"
	"github.com/redis/rueidis"
)

// telling is a write that every instance is told of: a script that publishes a
// frame of its keys, and its arguments behind the frame.
type telling struct {
	*script
	names  []string
	args   []string
	number uint64 // of the frame
	frame  string
}

// write runs writes in one round trip, and tells of each in the same step, or
// right after it where scripts may not publish. One error per write.
func (n *Namespace) write(ctx context.Context, writes ...telling) []error {
	conn := n.client.conn.Load()
	if why := n.client.unsendable(ctx, conn); why != nil { // a number that is not used need not be spared
		errs := make([]error, len(writes))
		for i, w := range writes {
			errs[i] = failure(w.verb, why)
		}
		return errs
	}
	after := !conn.tells
	calls := make([]call, len(writes))
	for i := range writes {
		w := &writes[i]
		w.number, w.frame = n.nextFrame(w.names...)
		channel, message := n.channel, w.frame
		if after {
			channel, message = "", ""
		}
		calls[i] = call{w.script, n.keys(w.names...), append([]string{channel, message}, w.args...)}
	}
	_, errs := n.client.do(ctx, calls...)
	if after {
		n.tellAfter(context.WithoutCancel(ctx), writes, errs)
		return errs
	}
	for i, err := range errs {
		// Scripts publish before they write, and memory is refused to a write.
		n.sender.Told(writes[i].number, err == nil || isOOM(err))
	}
	return errs
}

// nextFrame is the next one, whose outcome must be told.
func (n *Namespace) nextFrame(keys ...string) (number uint64, text string) {
	number = n.sender.Next()
	return number, string(frame.Append(nil, frame.Frame{Sender: n.node, Number: number, Keys: keys}))
}

// tellAfter publishes what scripts could not: after each write that was sent,
// because one that failed may have taken effect in part, or may yet. A write that
// nobody could be told of has failed.
func (n *Namespace) tellAfter(ctx context.Context, writes []telling, errs []error) {
	var messages []string
	var at []int
	for i, err := range errs {
		switch {
		case outcomeUnknown(err):
			n.tellTwice(writes[i])
		case sent(err):
			messages, at = append(messages, writes[i].frame), append(at, i)
		default:
			n.sender.Told(writes[i].number, false)
		}
	}
	for j, err := range n.client.publish(ctx, n.channel, messages...) {
		i := at[j]
		if err == nil {
			n.sender.Told(writes[i].number, true)
			continue
		}
		n.tellTwice(writes[i])
		if errs[i] == nil {
			errs[i] = &Error{Op: writes[i].verb, OutcomeUnknown: true, Err: fmt.Errorf("done, but nobody was told: %w", err)}
		}
	}
}

// Bounds of the tries to tell of a write.
const (
	tellAttempts = 8
	tellFirst    = 100 * time.Millisecond
	tellLast     = 10 * time.Second
)

// tellTwice publishes the frame of a write that nobody may know of at once, and
// again when the write can no longer begin, until that succeeds.
func (n *Namespace) tellTwice(w telling) {
	if !n.client.background(func(ctx context.Context) {
		n.sender.Told(w.number, n.client.publish(ctx, n.channel, w.frame)[0] == nil)
		pause := n.client.opts.CommandTimeout
		for attempt := 1; wait(ctx, pause); attempt++ {
			number, again := n.nextFrame(w.names...) // who has heard the first must miss this if it is lost
			err := n.client.publish(ctx, n.channel, again)[0]
			n.sender.Told(number, err == nil)
			if err == nil {
				return
			}
			if attempt == tellAttempts {
				if n.client.untold.Due() {
					n.client.opts.Logger.Error("other instances could not be told of a write", "attempts", attempt, "error", err)
				}
				return
			}
			pause = min(tellFirst<<(attempt-1), tellLast)
		}
	}) {
		n.sender.Told(w.number, false)
	}
}

// publish sends messages on a channel in one round trip.
func (c *Client) publish(ctx context.Context, channel string, messages ...string) []error {
	publications := make([]publication, len(messages))
	for i, m := range messages {
		publications[i] = publication{channel, m}
	}
	return c.publishAll(ctx, publications)
}

type publication struct{ channel, message string }

// publishAll publishes in one round trip; the errors are *Error.
func (c *Client) publishAll(ctx context.Context, publications []publication) []error {
	errs := make([]error, len(publications))
	conn := c.conn.Load()
	if why := c.absent(conn); why != nil || len(publications) == 0 {
		for i := range errs {
			errs[i] = failure("publish", why)
		}
		return errs
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.CommandTimeout)
	defer cancel()
	commands := make(rueidis.Commands, len(publications))
	for i, p := range publications {
		commands[i] = conn.B().Publish().Channel(p.channel).Message(p.message).Build()
	}
	for i, result := range conn.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			errs[i] = failure("publish", err)
		}
	}
	return errs
}

// mayTell learns whether scripts may publish. Where the server says no, which some
// managed services and access lists do, writes are told right after the script.
func (c *Client) mayTell(ctx context.Context, conn *connection) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.CommandTimeout)
	defer cancel()
	channel := c.opts.KeyPrefix + "!probe:{b}"
	_, errs := c.attempt(ctx, conn, []call{{probeScript, []string{c.probeKey()}, []string{channel}}})
	switch err := errs[0]; {
	case err == nil:
		conn.tells = true
	case !answered(err) || unanswered(err):
		return fmt.Errorf("ask whether scripts may publish: %w", err)
	default:
		c.opts.Logger.Warn("scripts may not publish: other instances are told right after each write, "+
			"and not at all when this process dies between", "error", err)
	}
	return nil
}

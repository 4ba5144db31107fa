package l1

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cocache/cocache/runtime/audit"
	"github.com/cocache/cocache/runtime/frame"
)

// announcer announces at each heartbeat what the client's namespaces have published,
// so that those who hear it know what they should have heard.
type announcer struct {
	mu         sync.Mutex
	namespaces []*Namespace // guarded by mu; the first is the steady one, until it leaves
	refused    bool         // of announceAll alone; the server said no the last time
	pulse      atomic.Pointer[audit.Pulse]
}

// Pulse is the latest sign of life of this client that was published; nil before
// the first.
func (c *Client) Pulse() *audit.Pulse { return c.announcer.pulse.Load() }

// Join publishes a frame without keys, to learn whether this node may publish at
// all, and has it announced from then on, unless the server says no.
func (n *Namespace) Join(ctx context.Context) error {
	number, message := n.nextFrame()
	err := n.client.publish(ctx, n.channel, message)[0]
	n.sender.Told(number, err == nil)
	if err != nil && answered(err) {
		return err
	}
	n.client.announcer.add(n)
	return err
}

// Leave says goodbye: nothing more comes from this node.
func (n *Namespace) Leave(ctx context.Context) {
	if !n.client.announcer.remove(n) {
		return
	}
	number, a, _, fits := n.sender.Announcement(time.Now())
	if a.Goodbye = true; !fits {
		a.Unpublished = nil // they reset for it, and forget this node all the same
	}
	message := string(frame.Append(nil, frame.Frame{Sender: n.node, Number: number, Announcement: &a}))
	if err := n.client.publish(ctx, n.channel, message)[0]; err != nil && !Away(err) {
		n.client.opts.Logger.Warn("could not say goodbye on the invalidation channel", "channel", n.channel, "error", err)
	}
}

func (a *announcer) add(n *Namespace) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.namespaces = append(a.namespaces, n)
}

func (a *announcer) remove(n *Namespace) (was bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.Index(a.namespaces, n)
	if at < 0 {
		return false
	}
	a.namespaces = slices.Delete(a.namespaces, at, at+1)
	return true
}

func (a *announcer) all() []*Namespace {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.namespaces)
}

// announceAlways announces until ctx ends.
func (c *Client) announceAlways(ctx context.Context) {
	heartbeat := time.NewTicker(c.opts.Heartbeat)
	defer heartbeat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-heartbeat.C:
			c.announceAll(ctx)
		}
	}
}

// announcement is one namespace's at one heartbeat.
type announcement struct {
	*Namespace
	number uint64
	resets bool // it says that anything may have changed
	steady bool
}

// announcementsPerTrip bounds what is sent at once.
const announcementsPerTrip = 512

// announceAll says what every namespace has to say; the first, which is the one that
// joined before all others, says something at every heartbeat. What could not be
// sent is said at the next.
func (c *Client) announceAll(ctx context.Context) {
	now := time.Now()
	var said []announcement
	var messages []publication
	for i, n := range c.announcer.all() {
		number, a, moved, fits := n.sender.Announcement(now)
		steady := i == 0
		if !moved && !steady {
			n.sender.Announced(number, now)
			continue
		}
		message := frame.AppendReset(nil, n.node, number)
		if a.Steady = steady; fits {
			message = frame.Append(nil, frame.Frame{Sender: n.node, Number: number, Announcement: &a})
		}
		said = append(said, announcement{n, number, !fits, steady})
		messages = append(messages, publication{n.channel, string(message)})
	}
	var refusal error
	for start := 0; start < len(said); start += announcementsPerTrip {
		end := min(start+announcementsPerTrip, len(said))
		sent := time.Now()
		for i, err := range c.publishAll(ctx, messages[start:end]) {
			if c.announced(said[start+i], sent, err); answered(err) {
				refusal = err
			}
		}
	}
	if refusal != nil && !c.announcer.refused {
		c.opts.Logger.Warn("invalidations cannot be announced: losses may go unnoticed", "error", refusal)
	}
	c.announcer.refused = refusal != nil
}

// announced: a reset is followed by a proper announcement at the next heartbeat.
func (c *Client) announced(a announcement, sent time.Time, err error) {
	switch {
	case err != nil:
		return
	case a.resets:
		a.sender.Forgiven(a.number)
	default:
		a.sender.Announced(a.number, sent)
	}
	if a.steady && !a.resets { // a reset is not heard as a pulse
		c.announcer.pulse.Store(&audit.Pulse{Channel: a.channel, Node: a.node, At: sent})
	}
}

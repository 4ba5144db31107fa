// Package cache is the story of a namespace of type cache: a read goes through
// the process's own copies (L2) and Redis (L1) to the loader, one instance of
// the cluster loads a missing key, and nothing that was read before an
// invalidation is kept after it, in either tier.
//
// The order of steps is the protocol's, numbered beside the lines (PROTOCOL.md);
// the parts it is made of know nothing of each other: stamps, flights, L2, and L1
// behind the small interface below. Loaders are an interface, slow and
// possibly hostile. Every goroutine that a Cache starts is waited for by Close.
package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cocache/cocache/runtime/channel"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/flight"
	"github.com/cocache/cocache/runtime/frame"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/l2"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/runtime/notice"
	"github.com/cocache/cocache/runtime/pending"
	"github.com/cocache/cocache/runtime/policy"
	"github.com/cocache/cocache/runtime/stamp"
)

// L1 is what the story needs of the shared tier; *l1.Namespace is one.
type L1 interface {
	Read(ctx context.Context, key string, ask l1.Ask) (l1.Reading, error)
	ReadAll(ctx context.Context, keys []string, ask l1.Ask) []l1.Outcome
	Fill(ctx context.Context, key string, token entry.Token, f l1.Fill) (stored bool, err error)
	FillAll(ctx context.Context, fills []l1.KeyFill) []l1.FillOutcome
	Release(ctx context.Context, key string, token entry.Token) error
	ReleaseAll(ctx context.Context, releases []l1.KeyToken) []error
	Postpone(ctx context.Context, key string, token entry.Token, leaseTTL, pause time.Duration) error
	Reclaim(ctx context.Context, key, content string, leaseTTL time.Duration) (entry.Token, bool, error)
	PutAll(ctx context.Context, puts []l1.KeyFill) []error
	Invalidate(ctx context.Context, keys []string, staleTTL time.Duration) []error
	Join(ctx context.Context) error
	Leave(ctx context.Context)
	Channel() string
}

// Feed brings the invalidations of other instances; *channel.Subscriber is one.
type Feed interface {
	Add(ctx context.Context, channel string, node entry.NodeID, h channel.Handler) error
	Remove(channel string, node entry.NodeID)
	// Reliance bounds the life of copies made now: messages may be missing.
	Reliance(channel string) time.Duration
}

// Options of a Cache.
type Options struct {
	Name   string        // of the namespace, for logs
	Policy policy.Policy // zero fields are the defaults
	// Loader reads the source; nil when the application alone writes the
	// cache (an external source).
	Loader loader.Loader
	L1     L1
	Feed   Feed
	// Node is this cache's own id, the one that L1 sends as.
	Node     entry.NodeID
	Logger   *slog.Logger // slog.Default()
	Observer Observer     // may be nil
}

// notices are the kinds of log lines that callers can cause.
type notices struct {
	refused     notice.Notice // reads, by Redis
	unreadable  notice.Notice // content
	unstored    notice.Notice // what was loaded
	unreleased  notice.Notice // leases
	unrefreshed notice.Notice // values
	dropped     notice.Notice // invalidations
}

// Cache is one namespace in this process. It is safe for concurrent use.
type Cache struct {
	name     string
	policy   policy.Policy
	loader   loader.Loader
	l1       L1
	feed     Feed
	node     entry.NodeID
	log      *slog.Logger
	observer Observer

	stamps  *stamp.Table
	l2      *l2.Tier
	flights flight.Group[result]
	places  *places
	lifts   lifts
	pending pending.Queue
	own     own
	notices notices
	wrote   ownWrites
	counts  counts

	mu     sync.Mutex
	closed bool           // guarded by mu
	tasks  sync.WaitGroup // Add under mu while not closed
	stop   context.CancelFunc
	life   context.Context // ends with Close: background work stops
	kill   context.CancelFunc
	loads  context.Context // ends when Close has waited long enough: loads stop
}

// New opens a namespace: it subscribes to its invalidations, waiting a command
// timeout at most for the confirmation, and learns whether it may publish. A
// Redis that is away is no error; one that forbids publishing is.
func New(ctx context.Context, o Options) (*Cache, error) {
	if o.L1 == nil || o.Feed == nil {
		return nil, fmt.Errorf("open namespace %s: Options.L1 and Options.Feed are required", o.Name)
	}
	if errs := o.Policy.Validate(); len(errs) > 0 {
		return nil, fmt.Errorf("open namespace %s: %w", o.Name, errs)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	p := o.Policy.WithDefaults()
	stamps := stamp.NewTable()
	c := &Cache{
		name: o.Name, policy: p, loader: o.Loader, l1: o.L1, feed: o.Feed, node: o.Node,
		log: o.Logger.With("namespace", o.Name), observer: o.Observer,
		stamps: stamps,
		l2:     l2.New(l2.Options{MaxEntries: p.Local.MaxEntries, MaxBytes: p.Local.MaxBytes}, stamps),
		places: newPlaces(p.Loads),
	}
	c.life, c.stop = context.WithCancel(context.Background())
	c.loads, c.kill = context.WithCancel(context.Background())
	if err := c.open(ctx); err != nil {
		c.Close(ctx)
		return nil, fmt.Errorf("open namespace %s: %w", o.Name, err)
	}
	return c, nil
}

func (c *Cache) open(ctx context.Context) error {
	if err := c.feed.Add(ctx, c.l1.Channel(), c.node, handler{c}); errors.Is(err, channel.ErrTaken) {
		return err
	} else if err != nil {
		c.log.Warn("invalidations do not arrive yet", "error", err)
	}
	if err := c.l1.Join(ctx); err != nil {
		if saidNo(err) {
			return err
		}
		c.log.Warn("redis cannot be written to yet", "error", err)
	}
	return nil
}

// Close stops the background work, waits until ctx ends for what is under way,
// and gives up the subscription. Loads that are still running then are cut
// short, so that their leases do not outlive them.
func (c *Cache) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	idle := make(chan struct{})
	go func() { c.tasks.Wait(); close(idle) }()
	var err error
	select {
	case <-idle:
	case <-ctx.Done():
		err = fmt.Errorf("close namespace %s: loads still under way: %w", c.name, ctx.Err())
		c.kill()
		select {
		case <-idle:
		case <-time.After(closeGrace):
		}
	}
	c.kill()
	c.l1.Leave(context.WithoutCancel(ctx))
	c.feed.Remove(c.l1.Channel(), c.node)
	c.l2.Close()
	return err
}

// closeGrace is the time of a load that was cut short to end, and of its lease
// to be released.
const closeGrace = time.Second

// start runs task on a goroutine that Close waits for; false when closed.
func (c *Cache) start(task func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.tasks.Go(task)
	return true
}

// Policy is the namespace's, defaults filled in.
func (c *Cache) Policy() policy.Policy { return c.policy }

// ClearLocal drops this process's copies of every key; L1 keeps its entries.
func (c *Cache) ClearLocal() { c.reset(channel.Manual) }

func (c *Cache) reset(cause channel.Cause) {
	c.counts.reset(cause)
	c.l2.Reset()
}

// handler is what the feed sees of a Cache.
type handler struct{ c *Cache }

// Changed is the second half of another instance's write: bump, then evict. A
// node's own messages say nothing new, because its writer has bumped and
// evicted after the script already; unless that writer did not learn whether
// the script ran.
func (h handler) Changed(f frame.Frame) {
	if f.Sender != h.c.node && len(f.Keys) > 0 {
		h.c.counts.received.Add(1)
	}
	for _, key := range f.Keys {
		if f.Sender != h.c.node || h.c.own.counts(key) {
			h.c.l2.Invalidate(key)
		}
	}
}

func (h handler) Reset(cause channel.Cause) { h.c.reset(cause) }

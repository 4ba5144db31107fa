// Package l1 is the shared tier: Redis or Valkey, one key per entry, changed
// only by the scripts of package lua, which it alone calls.
//
// It guarantees that no token is ever sent twice unless the answer proves that
// the script did not run, that a command whose caller gave up changes nothing
// afterwards (not-after), and that writes are neither retried nor queued while
// Redis is away: each failure is an *Error that says whether the command may
// have run. It decides nothing: when to read, wait, load or fill is package
// cache's.
package l1

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cocache/cocache/runtime/notice"
	"github.com/redis/rueidis"
)

// ErrAway: there is no connection to Redis yet, or no longer.
var ErrAway = errors.New("no connection to redis")

// Mode is how the addresses are to be understood.
type Mode string

const (
	Auto       Mode = "auto" // ask the server
	Standalone Mode = "standalone"
	Cluster    Mode = "cluster"
)

// Options say where Redis is.
type Options struct {
	Mode               Mode // Auto
	Addresses          []string
	DB                 int
	Username, Password string
	TLS                *tls.Config
	// Dial replaces the network, for a server in this process.
	Dial           func(ctx context.Context) (net.Conn, error)
	CommandTimeout time.Duration // 1s
	KeyPrefix      string        // of every key and channel; DefaultKeyPrefix
	Heartbeat      time.Duration // between two announcements of what was published; 5s
	Logger         *slog.Logger  // slog.Default()
}

// DefaultKeyPrefix begins every key and channel unless configured otherwise.
const DefaultKeyPrefix = "cocache:"

// Client is the connection to Redis. It connects by itself, in the background
// when Redis is away, and is safe for concurrent use.
type Client struct {
	opts    Options
	conn    atomic.Pointer[connection]
	clock   clock
	breaker breaker
	ready   chan struct{}         // closed once connected
	trouble atomic.Pointer[error] // why the last try to connect failed
	life    context.Context
	stop    context.CancelFunc

	announcer announcer
	untold    notice.Notice

	mu      sync.Mutex
	closed  bool                             // guarded by mu
	stopped sync.WaitGroup                   // Add under mu while not closed
	lent    map[rueidis.DedicatedClient]bool // guarded by mu; connections given out
}

// connection is a client library's client and what was learnt when it was made.
type connection struct {
	rueidis.Client
	cluster bool
	tells   bool // scripts may publish
}

// Open starts a client. It tries to connect for up to one command timeout and
// goes on trying in the background, so that a service can start without its
// Redis.
func Open(opts Options) *Client {
	if opts.CommandTimeout <= 0 {
		opts.CommandTimeout = time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.KeyPrefix == "" {
		opts.KeyPrefix = DefaultKeyPrefix
	}
	if opts.Heartbeat <= 0 {
		opts.Heartbeat = 5 * time.Second
	}
	c := &Client{opts: opts, ready: make(chan struct{}), lent: map[rueidis.DedicatedClient]bool{}}
	c.life, c.stop = context.WithCancel(context.Background())
	first := make(chan struct{})
	c.background(func(ctx context.Context) { c.connect(ctx, first) })
	c.background(c.announceAlways)
	select {
	case <-first:
	case <-time.After(opts.CommandTimeout):
	}
	return c
}

// background runs task, which ends with its context, on a goroutine that Close
// waits for; false when the client is closed.
func (c *Client) background(task func(context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.stopped.Go(func() { task(c.life) })
	return true
}

// Close ends the connection; commands in flight fail.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.stopped.Wait()
	if conn := c.conn.Swap(nil); conn != nil {
		conn.Close()
	}
}

// Ready is closed when the client has connected for the first time.
func (c *Client) Ready() <-chan struct{} { return c.ready }

const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// connect tries until it succeeds or ctx ends; first is closed after the first
// try. Once made, the library's client reconnects by itself.
func (c *Client) connect(ctx context.Context, first chan struct{}) {
	pause := firstRetry
	for try := 1; ; try++ {
		conn, err := c.dialClient(ctx)
		if err == nil {
			c.conn.Store(conn)
			close(c.ready)
		}
		if try == 1 {
			close(first)
		}
		if err == nil {
			return
		}
		c.trouble.Store(&err)
		if try == 1 {
			c.opts.Logger.Warn("redis cannot be reached, trying on", "addresses", c.opts.Addresses, "error", err)
		}
		if !wait(ctx, pause) {
			return
		}
		pause = min(2*pause, lastRetry)
	}
}

// wait lets a pause pass; false when ctx ended before.
func wait(ctx context.Context, pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// absent says why nothing can be sent at the moment; nil when it can.
func (c *Client) absent(conn *connection) error {
	switch {
	case conn == nil:
		return c.away()
	case c.breaker.isOpen():
		return ErrDown
	default:
		return nil
	}
}

// unsendable is absent for a caller who may have gone.
func (c *Client) unsendable(ctx context.Context, conn *connection) error {
	if why := c.absent(conn); why != nil {
		return why
	}
	if ctx.Err() != nil {
		return notSent(ctx)
	}
	return nil
}

// away is ErrAway with the reason, where one is known.
func (c *Client) away() error {
	if why := c.trouble.Load(); why != nil {
		return fmt.Errorf("%w: %w", ErrAway, *why)
	}
	return ErrAway
}

func (c *Client) dialClient(ctx context.Context) (*connection, error) {
	o := c.opts
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       o.Addresses,
		SelectDB:          o.DB,
		Username:          o.Username,
		Password:          o.Password,
		DialCtxFn:         c.dial,
		ForceSingleClient: o.Mode == Standalone || o.Dial != nil,
		DisableRetry:      true,
		DisableCache:      true,
		ConnWriteTimeout:  2 * o.CommandTimeout,
		Dialer:            net.Dialer{Timeout: o.CommandTimeout},
		ClientName:        "cocache",
		ClientSetInfo:     rueidis.DisableClientSetInfo,
	})
	if err != nil {
		if client != nil { // a forced single client comes even without a connection
			client.Close()
		}
		return nil, fmt.Errorf("connect: %w", err)
	}
	conn := &connection{Client: client, cluster: client.Mode() == rueidis.ClientModeCluster}
	if o.Mode == Cluster && !conn.cluster {
		client.Close()
		return nil, errors.New("connect: the server is not part of a cluster")
	}
	err = c.probe(ctx, conn)
	if err == nil {
		err = c.mayTell(ctx, conn)
	}
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}

// dialError marks a connection that was never made: nothing was sent on it.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

func (c *Client) dial(ctx context.Context, address string, d *net.Dialer, tlsConfig *tls.Config) (conn net.Conn, err error) {
	switch {
	case c.opts.Dial != nil:
		conn, err = c.opts.Dial(ctx)
	case c.opts.TLS != nil:
		conn, err = (&tls.Dialer{NetDialer: d, Config: c.opts.TLS}).DialContext(ctx, "tcp", address)
	default:
		conn, err = d.DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, &dialError{err}
	}
	return conn, nil
}

// Probe runs a script, which is what readiness means: a server may answer PING
// and refuse scripts.
func (c *Client) Probe(ctx context.Context) error {
	conn := c.conn.Load()
	if why := c.absent(conn); why != nil {
		return why
	}
	return c.probe(ctx, conn)
}

// clockScript tells the time and writes, without a change: a replica refuses it.
const clockScript = `local t = redis.call('TIME') redis.call('DEL', KEYS[1]) return {t[1], t[2]}`

// probeKey is nobody's.
func (c *Client) probeKey() string { return c.opts.KeyPrefix + "!probe:{a}" }

func (c *Client) probe(ctx context.Context, conn *connection) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.CommandTimeout)
	defer cancel()
	t, err := conn.Do(ctx, conn.B().Eval().Script(clockScript).Numkeys(1).Key(c.probeKey()).Build()).AsIntSlice()
	if err != nil {
		return fmt.Errorf("run a script: %w", err)
	}
	c.clock.learn(t[0]*1000 + t[1]/1000)
	return nil
}

// Cluster reports whether Redis is one of several servers.
func (c *Client) Cluster() bool {
	conn := c.conn.Load()
	return conn != nil && conn.cluster
}

// Subscriber returns a dedicated connection for the invalidation channels and
// the function that gives it up.
func (c *Client) Subscriber() (rueidis.DedicatedClient, func(), error) {
	conn := c.conn.Load()
	if conn == nil {
		return nil, nil, c.away()
	}
	d, cancel := conn.Dedicate()
	giveUp := func() {
		c.mu.Lock()
		delete(c.lent, d)
		c.mu.Unlock()
		cancel()
	}
	c.mu.Lock()
	c.lent[d] = true
	c.mu.Unlock()
	if c.conn.Load() != conn { // made anew meanwhile, and this one not recalled
		giveUp()
		return nil, nil, ErrAway
	}
	return d, giveUp, nil
}

// recall closes the connections that were given out.
func (c *Client) recall() {
	c.mu.Lock()
	lent := slices.Collect(maps.Keys(c.lent))
	c.mu.Unlock()
	for _, d := range lent {
		d.Close()
	}
}

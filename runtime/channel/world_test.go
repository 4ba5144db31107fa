package channel

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/frame"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/redis/rueidis"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	ctx   = context.Background()
	quiet = slog.New(slog.NewTextHandler(io.Discard, nil))
)

// world is one Redis, a process that subscribes, and one that publishes.
type world struct {
	*testing.T
	wires  *wires
	client *l1.Client
	feed   *Subscriber
	raw    rueidis.Client
}

// bubble runs test over the embedded server in virtual time.
func bubble(t *testing.T, o Options, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := l1.NewEmbedded()
		t.Cleanup(server.Close)
		wires := &wires{dial: server.Dial}
		test(newWorld(t, o, wires, l1.Options{Addresses: []string{"embedded"}, Dial: wires.Dial},
			func(ctx context.Context, _ string, _ *net.Dialer) (net.Conn, error) { return server.Dial(ctx) }))
	})
}

func newWorld(t *testing.T, o Options, wires *wires, redis l1.Options,
	dial func(context.Context, string, *net.Dialer) (net.Conn, error)) *world {
	t.Helper()
	raw, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: redis.Addresses, ForceSingleClient: true, DisableCache: true,
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dial(ctx, addr, d)
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(raw.Close)
	redis.Logger, o.Logger = quiet, quiet
	client := l1.Open(redis)
	t.Cleanup(client.Close)
	<-client.Ready()
	feed := Open(client, o)
	t.Cleanup(feed.Close)
	return &world{T: t, wires: wires, client: client, feed: feed, raw: raw}
}

// add subscribes a recorder and waits for its confirmation.
func (w *world) add(channel string) *recorder {
	w.Helper()
	r := &recorder{}
	if err := w.feed.Add(ctx, channel, r); err != nil {
		w.Fatal(err)
	}
	return r
}

func (w *world) publish(channel, message string) {
	w.Helper()
	if err := w.raw.Do(ctx, w.raw.B().Publish().Channel(channel).Message(message).Build()).Error(); err != nil {
		w.Fatal(err)
	}
}

// want waits for what the handler was told since it was last asked.
func (w *world) want(r *recorder, events ...string) {
	w.Helper()
	var got []string
	for range 1000 { // real servers; in a bubble time is free
		if got = r.events(); len(got) >= len(events) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !slices.Equal(got, events) {
		w.Fatalf("told %q, want %q", got, events)
	}
	r.forget(len(got))
}

func (w *world) quiet(r *recorder) {
	w.Helper()
	if got := r.events(); len(got) != 0 {
		w.Fatalf("told %q, want nothing", got)
	}
}

// The beginnings and ends of a feed.
var (
	confirmed = []string{"reset subscribed"}
	lost      = []string{"reset heartbeat"}
)

// keys is a frame as another node sends it.
func keys(keys ...string) string {
	return string(frame.Append(nil, frame.Frame{Sender: entry.NodeID{1}, Number: 1, Keys: keys}))
}

// recorder is a Handler that writes down what it is told.
type recorder struct {
	mu   sync.Mutex
	told []string // guarded by mu
}

func (r *recorder) add(event string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, event)
}

func (r *recorder) events() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told)
}

func (r *recorder) forget(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = r.told[n:]
}

func (r *recorder) Changed(f frame.Frame) { r.add("changed " + strings.Join(f.Keys, ",")) }
func (r *recorder) Reset(cause Cause)     { r.add("reset " + string(cause)) }

// wires are the connections of the subscribing process: they can be cut, go
// dead without a sign, or take their time to be made.
type wires struct {
	dial func(context.Context) (net.Conn, error)

	mu    sync.Mutex
	down  error         // guarded by mu; what dialling answers
	slow  time.Duration // guarded by mu; of dialling
	conns []*wire       // guarded by mu
}

func (w *wires) Dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	down, slow := w.down, w.slow
	w.mu.Unlock()
	time.Sleep(slow)
	if down != nil {
		return nil, down
	}
	conn, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	end := &wire{Conn: conn}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, end)
	return end, nil
}

// set says what becomes of connections to come.
func (w *wires) set(down error, slow time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down, w.slow = down, slow
}

// each does something to the connections there are.
func (w *wires) each(do func(*wire)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.conns {
		do(conn)
	}
}

func (w *wires) cut()  { w.each(func(c *wire) { c.Close() }) }
func (w *wires) numb() { w.each(func(c *wire) { c.mu.Lock(); defer c.mu.Unlock(); c.dead = true }) }

// wire swallows what is read and written once it is dead.
type wire struct {
	net.Conn
	mu   sync.Mutex
	dead bool // guarded by mu; until closed, which an end always notices itself
}

func (c *wire) isDead() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.dead }

func (c *wire) Close() error {
	c.mu.Lock()
	c.dead = false
	c.mu.Unlock()
	return c.Conn.Close()
}

func (c *wire) Write(p []byte) (int, error) {
	if c.isDead() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *wire) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.isDead() {
			return n, err
		}
	}
}

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
	"github.com/cocache/cocache/tests/wire"
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
	wire   *wire.Wire
	client *l1.Client
	feed   *Subscriber
	raw    rueidis.Client
	dial   func(context.Context) (net.Conn, error) // as another process does
}

// bubble runs test over the embedded server in virtual time.
func bubble(t *testing.T, o Options, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := l1.NewEmbedded()
		t.Cleanup(server.Close)
		wire := wire.New(server.Dial)
		test(newWorld(t, o, wire, l1.Options{Addresses: []string{"embedded"}, Dial: wire.Dial},
			func(ctx context.Context, _ string, _ *net.Dialer) (net.Conn, error) { return server.Dial(ctx) }))
	})
}

func newWorld(t *testing.T, o Options, wire *wire.Wire, redis l1.Options,
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
	return &world{T: t, wire: wire, client: client, feed: feed, raw: raw,
		dial: func(ctx context.Context) (net.Conn, error) { return dial(ctx, "", &net.Dialer{}) }}
}

// heartbeat is the default; node is the subscribing one.
const heartbeat = 5 * time.Second

var node = entry.NewNodeID()

// up reports whether the channel's messages arrive.
func (w *world) up(channel string) bool { return w.feed.Reliance(channel) > heartbeat }

// add subscribes a recorder and waits for its confirmation.
func (w *world) add(channel string) *recorder {
	w.Helper()
	r := &recorder{}
	if err := w.feed.Add(ctx, channel, node, r); err != nil {
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

// resets are the events that are resets.
func (r *recorder) resets() []string {
	return slices.DeleteFunc(r.events(), func(e string) bool { return !strings.HasPrefix(e, "reset") })
}

func (r *recorder) forget(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = r.told[n:]
}

func (r *recorder) Changed(f frame.Frame) { r.add("changed " + strings.Join(f.Keys, ",")) }
func (r *recorder) Reset(cause Cause)     { r.add("reset " + string(cause)) }

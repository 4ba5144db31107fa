package l1

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/frame"
	"github.com/cocache/cocache/runtime/policy"
	"github.com/cocache/cocache/tests/redistest"
	"github.com/cocache/cocache/tests/wire"
	"github.com/redis/rueidis"
)

var (
	ctx   = context.Background()
	quiet = slog.New(slog.NewTextHandler(io.Discard, nil))
)

// world is one Redis and two nodes of one namespace in front of it.
type world struct {
	*testing.T
	client *Client
	a, b   *Namespace
	nodeA  entry.NodeID
	raw    rueidis.Client // as an operator sees it
	exact  bool           // virtual time: lifetimes are compared to the millisecond
}

const (
	prefix   = "cocache:{}n:"
	channelN = "cocache:inv:n"
)

// newWorld connects to the server at o; rawDial is the operator's way to it.
func newWorld(t *testing.T, o Options) *world { return newWorldOver(t, o, o.Dial) }

func newWorldOver(t *testing.T, o Options, rawDial func(context.Context) (net.Conn, error)) *world {
	t.Helper()
	o.Logger = quiet
	raw, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: o.Addresses, ForceSingleClient: true, DisableCache: true,
		DialCtxFn: (&Client{opts: Options{Dial: rawDial}}).dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(raw.Close)
	c := Open(o)
	t.Cleanup(c.Close)
	<-c.Ready()
	w := &world{T: t, client: c, nodeA: entry.NewNodeID(), raw: raw, exact: o.Dial != nil}
	w.a, w.b = c.Namespace("n", w.nodeA), c.Namespace("n", entry.NewNodeID())
	return w
}

// bubble runs test with the embedded server in virtual time; its connections
// go through the tap.
func bubble(t *testing.T, o Options, test func(w *world, tap *wire.Wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := NewEmbedded()
		t.Cleanup(server.Close)
		tap := wire.New(server.Dial)
		t.Cleanup(tap.Release)
		o.Addresses, o.Dial = []string{"embedded"}, tap.Dial
		w := newWorldOver(t, o, server.Dial)
		for _, s := range allScripts {
			w.do("SCRIPT", "LOAD", s.source) // else what is held on the wire is answered NOSCRIPT
		}
		for range 64 { // the library has four connections and takes any
			w.read(w.a, "k", Ask{})
		}
		test(w, tap)
	})
}

// everywhere runs test on each kind of server.
func everywhere(t *testing.T, tests []behaviour) {
	t.Run("embedded", func(t *testing.T) {
		for _, test := range tests {
			t.Run(test.rule, func(t *testing.T) { bubble(t, Options{}, func(w *world, _ *wire.Wire) { test.check(w) }) })
		}
	})
	for name, start := range map[string]func(testing.TB) *redistest.Server{
		"redis":   func(t testing.TB) *redistest.Server { return redistest.Start(t) },
		"cluster": redistest.StartCluster,
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			for _, test := range tests {
				t.Run(test.rule, func(t *testing.T) {
					w := newWorld(t, Options{Addresses: []string{server.Addr}, CommandTimeout: 20 * time.Second})
					w.do("FLUSHALL")
					if cluster := w.client.conn.Load().cluster; cluster != (name == "cluster") {
						t.Fatalf("taken for a cluster: %v", cluster)
					}
					test.check(w)
				})
			}
		})
	}
}

type behaviour struct {
	rule  string
	check func(w *world)
}

// do runs one command as an operator would.
func (w *world) do(args ...string) *rueidis.RedisMessage {
	w.Helper()
	m, err := w.raw.Do(ctx, w.raw.B().Arbitrary(args...).Build()).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		w.Fatalf("%q: %v", args, err)
	}
	return &m
}

// bytes is what is under the key, "" when there is nothing.
func (w *world) bytes(key string) string {
	w.Helper()
	m := w.do("GET", prefix+key)
	if m.IsNil() {
		return ""
	}
	s, err := m.ToString()
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// entry decodes what is under the key.
func (w *world) entry(key string) entry.Entry {
	w.Helper()
	e, err := entry.Decode(w.bytes(key))
	if err != nil {
		w.Fatalf("under %q: %v", key, err)
	}
	return e
}

// gone is the life of a key that is not there.
const gone time.Duration = -2 * time.Millisecond

// life checks the key's expiry in Redis: policy.Forever, gone, or what is left.
func (w *world) life(key string, want time.Duration) {
	w.Helper()
	ms, err := w.do("PTTL", prefix+key).AsInt64()
	if err != nil {
		w.Fatal(err)
	}
	got := time.Duration(ms) * time.Millisecond
	switch {
	case want == policy.Forever:
		want = -time.Millisecond
	case want > 0 && !w.exact && got <= want && got > want-30*time.Second:
		return
	}
	if got != want {
		w.Errorf("%q lives %v more, want %v", key, got, want)
	}
}

// read fails the test on an error.
func (w *world) read(n *Namespace, key string, ask Ask) Reading {
	w.Helper()
	r, err := n.Read(ctx, key, ask)
	if err != nil {
		w.Fatalf("read %q: %v", key, err)
	}
	return r
}

var forLease = Ask{Lease: true, LeaseTTL: 10 * time.Minute}

// lease takes the key's lease.
func (w *world) lease(n *Namespace, key string) entry.Token {
	w.Helper()
	r := w.read(n, key, forLease)
	if r.Kind != Leased || !r.Granted() {
		w.Fatalf("read %q: %+v, want a lease", key, r)
	}
	return r.Token
}

// fill reports whether the fill counted.
func (w *world) fill(n *Namespace, key string, token entry.Token, f Fill) bool {
	w.Helper()
	stored, err := n.Fill(ctx, key, token, f)
	if err != nil {
		w.Fatalf("fill %q: %v", key, err)
	}
	return stored
}

func (w *world) put(key string, f Fill) {
	w.Helper()
	if err := w.a.Put(ctx, key, f); err != nil {
		w.Fatalf("put %q: %v", key, err)
	}
}

func (w *world) invalidate(keys ...string) {
	w.Helper()
	for i, err := range w.a.Invalidate(ctx, keys, 0) {
		if err != nil {
			w.Fatalf("invalidate %q: %v", keys[i], err)
		}
	}
}

func (w *world) release(n *Namespace, key string, token entry.Token) {
	w.Helper()
	if err := n.Release(ctx, key, token); err != nil {
		w.Fatalf("release %q: %v", key, err)
	}
}

// eventually waits for a condition, by whichever clock runs.
func (w *world) eventually(what string, is func() bool) {
	w.Helper()
	for range 1000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.Fatalf("never: %s", what)
}

// hear subscribes to the namespace's channel; the function returns the next
// frame.
func (w *world) hear() func() frame.Frame {
	w.Helper()
	conn, cancel := w.raw.Dedicate()
	w.Cleanup(cancel)
	messages := make(chan string, 2000)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { messages <- m.Message }})
	if err := conn.Do(ctx, conn.B().Subscribe().Channel(channelN).Build()).Error(); err != nil {
		w.Fatal(err)
	}
	return func() frame.Frame {
		w.Helper()
		select {
		case m := <-messages:
			f, err := frame.Decode(m)
			if err != nil {
				w.Fatal(err)
			}
			return f
		case <-time.After(20 * time.Second):
			w.Fatal("no frame")
			return frame.Frame{}
		}
	}
}

// value is a Fill of a value that lives an hour.
func value(payload string) Fill {
	return Fill{State: entry.Value, TTL: time.Hour, Body: entry.Body{Payload: payload}}
}

// failed checks that err is an *Error and whether its outcome is unknown.
func (w *world) failed(err error, unknown bool) *Error {
	w.Helper()
	var e *Error
	if !errors.As(err, &e) || e.OutcomeUnknown != unknown {
		w.Fatalf("%v; want an *Error with outcome unknown %v", err, unknown)
	}
	return e
}

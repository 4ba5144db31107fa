package conformance

import (
	"context"
	"crypto/sha1"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cocache/cocache/lua"
	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/channel"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/frame"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/policy"
	"github.com/cocache/cocache/tests/redistest"
	"github.com/cocache/cocache/tests/wire"
	"github.com/redis/rueidis"
)

var ctx = context.Background()

// world is one Redis, one source of rows, and any number of instances, each
// behind a wire of its own.
type world struct {
	*testing.T
	wire    func() *wire.Wire // a new one to this world's Redis
	server  *redistest.Server // nil where it is embedded
	virtual bool              // time is: exact moments can be told
	source  *source
	raw     rueidis.Client // as a stranger sees Redis
}

func newWorld(t *testing.T, newWire func() *wire.Wire, server *redistest.Server) *world {
	w := &world{T: t, wire: newWire, server: server, virtual: server == nil, source: &source{}}
	w.raw = w.client(newWire())
	return w
}

// client is a plain one over a wire.
func (w *world) client(over *wire.Wire) rueidis.Client {
	w.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"wire"}, ForceSingleClient: true, DisableCache: true,
		DialFn: func(string, *net.Dialer, *tls.Config) (net.Conn, error) { return over.Dial(ctx) }})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(client.Close)
	return client
}

// Options of an instance, beyond those of its cache.
type options struct {
	cache.Options
	prefix         string
	commandTimeout time.Duration
	Heartbeat      time.Duration
	username       string
}

// instance is one process: its own wire, connections, stamps and L2.
type instance struct {
	*cache.Cache
	w      *world
	name   string // of its namespace
	prefix string
	wire   *wire.Wire
	log    *logbook
	close  func() // idempotent; also done at the end of the test
}

// instance starts one. Namespace n, values are text, ttls without jitter, the
// world's source as loader; everything else is the default, unless changed.
func (w *world) instance(change ...func(*options)) *instance {
	w.Helper()
	i, err := w.open(change...)
	if err != nil {
		w.Fatal(err)
	}
	return i
}

func (w *world) open(change ...func(*options)) (*instance, error) {
	log := &logbook{}
	o := options{prefix: l1.DefaultKeyPrefix, Options: cache.Options{Name: "n", Loader: w.source, Node: entry.NewNodeID(),
		Logger: slog.New(log), Policy: policy.Policy{Codec: policy.String, TTLJitter: policy.NoJitter}}}
	for _, c := range change {
		c(&o)
	}
	over := w.wire()
	client := l1.Open(l1.Options{Addresses: []string{"wire"}, Dial: over.Dial, Logger: o.Logger,
		CommandTimeout: o.commandTimeout, KeyPrefix: o.prefix, Heartbeat: o.Heartbeat, Username: o.username})
	feed := channel.Open(client, channel.Options{Logger: o.Logger, Heartbeat: o.Heartbeat, Timeout: o.commandTimeout})
	o.L1, o.Feed = client.Namespace(o.Name, o.Node), feed
	c, err := cache.New(ctx, o.Options)
	closeAll := sync.OnceFunc(func() {
		over.Release()
		if c != nil {
			if err := c.Close(ctx); err != nil {
				w.Error(err)
			}
		}
		feed.Close()
		client.Close()
	})
	w.Cleanup(closeAll)
	if err != nil {
		return nil, err
	}
	return &instance{Cache: c, w: w, name: o.Name, prefix: o.prefix, wire: over, log: log, close: closeAll}, nil
}

// with changes the policy of an instance.
func with(change func(p *policy.Policy)) func(*options) {
	return func(o *options) { change(&o.Policy) }
}

// get reads and fails the test on an error.
func (i *instance) get(key string) cache.Lookup {
	i.w.Helper()
	found, err := i.Get(ctx, key)
	if err != nil {
		i.w.Fatalf("get %q: %v", key, err)
	}
	return found
}

// want checks what a read answers: its value, or absent, unpopulated.
func (i *instance) want(key, value string) {
	i.w.Helper()
	if got := text(i.get(key)); got != value {
		i.w.Fatalf("get %q: %s, want %s", key, got, value)
	}
}

// text is an answer in one word.
func text(found cache.Lookup) string {
	if found.Kind == cache.Value {
		return found.Value
	}
	return found.Kind.String()
}

func (i *instance) put(key, value string) {
	i.w.Helper()
	if err := i.Put(ctx, key, []byte(value), cache.PutOptions{}); err != nil {
		i.w.Fatalf("put %q: %v", key, err)
	}
}

func (i *instance) drop(keys ...string) {
	i.w.Helper()
	for j, o := range i.InvalidateAll(ctx, keys) {
		if o.Err != nil || o.Queued {
			i.w.Fatalf("invalidate %q: %+v", keys[j], o)
		}
	}
}

// connect makes every connection that the client may choose between, which it
// otherwise makes when it first takes one, and the scripts known, so that nothing but
// the command itself goes over a bad wire; what was sent so far is forgotten.
func (i *instance) connect() {
	i.w.Helper()
	i.w.know()
	for range 100 {
		if _, err := i.Peek(ctx, "nobody has this"); err != nil {
			i.w.Fatal(err)
		}
	}
	i.wire.Forget()
}

// reading is a read under way.
type reading struct {
	w      *world
	cancel context.CancelFunc
	done   chan struct{}
	found  cache.Lookup
	err    error
}

// begin starts a read of its own.
func (i *instance) begin(key string) *reading {
	return i.beginWith(func(ctx context.Context) (cache.Lookup, error) { return i.Get(ctx, key) })
}

func (i *instance) beginWith(read func(context.Context) (cache.Lookup, error)) *reading {
	ctx, cancel := context.WithCancel(ctx)
	r := &reading{w: i.w, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.found, r.err = read(ctx)
	}()
	return r
}

func (r *reading) isDone() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// wait is the answer; it fails the test when none comes.
func (r *reading) wait() (cache.Lookup, error) {
	r.w.Helper()
	r.w.until("an answer", r.isDone)
	return r.found, r.err
}

// want waits for an answer in one word, "error" for any error.
func (r *reading) want(value string) cache.Lookup {
	r.w.Helper()
	found, err := r.wait()
	got := text(found)
	if err != nil {
		got = "error"
	}
	if got != value {
		r.w.Fatalf("the read answered %s (%v), want %s", got, err, value)
	}
	return found
}

// Sent commands in our words: a script by its verb, others by their name, those of
// the connection itself left out.
func (i *instance) sent() []string {
	var verbs []string
	for _, c := range i.wire.Sent() {
		switch name := strings.ToUpper(c.Words[0]); name {
		case "HELLO", "CLIENT", "PING", "SUBSCRIBE", "UNSUBSCRIBE", "SCRIPT":
		case "EVALSHA":
			verbs = append(verbs, verbOf(c.Words[1]))
		case "EVAL":
			verbs = append(verbs, verbOf(hash(c.Words[1])))
		default:
			verbs = append(verbs, strings.ToLower(name))
		}
	}
	return verbs
}

// sends checks what an instance sends while do runs, in order, joined by
// blanks. A script that the server does not know yet is counted once.
func (i *instance) sends(want string, do func()) {
	i.w.Helper()
	i.w.know()
	i.wire.Forget()
	do()
	if got := strings.Join(i.sent(), " "); got != want {
		i.w.Fatalf("sent %q, want %q", got, want)
	}
}

// know makes the server know every script, so that each is sent once.
func (w *world) know() {
	w.Helper()
	for _, source := range scripts {
		w.do("SCRIPT", "LOAD", source)
	}
}

var scripts = map[string]string{"read": lua.Read, "fill": lua.Fill, "release": lua.Release, "reclaim": lua.Reclaim,
	"put": lua.Put, "invalidate": lua.Invalidate}

func hash(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

func verbOf(sha string) string {
	for verb, source := range scripts {
		if hash(source) == sha {
			return verb
		}
	}
	return "probe" // or another of the connection's own
}

// do runs a command as a stranger.
func (w *world) do(words ...string) rueidis.RedisMessage {
	w.Helper()
	m, err := w.raw.Do(ctx, w.raw.B().Arbitrary(words...).Build()).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		w.Fatalf("%q: %v", words, err)
	}
	return m
}

// at is where a key of namespace n is in Redis.
func at(key string) string { return l1.DefaultKeyPrefix + "{}n:" + key }

// bytes is what Redis holds under a key of namespace n, "" for nothing.
func (w *world) bytes(key string) string {
	w.Helper()
	m := w.do("GET", at(key))
	if m.IsNil() {
		return ""
	}
	s, err := m.ToString()
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// holds is the state and payload that Redis holds under a key: "" nothing, "L" a lease,
// "Vx" the value x, "M" a negative entry, "Sx" a stale copy of x; "?" what cannot be read.
func (w *world) holds(key string) string {
	w.Helper()
	content := w.bytes(key)
	if content == "" {
		return ""
	}
	e, err := entry.Decode(content)
	if err != nil {
		return "?"
	}
	return string(e.State) + e.Payload
}

func (w *world) wantHeld(key, want string) {
	w.Helper()
	if got := w.holds(key); got != want {
		w.Fatalf("redis holds %q under %q, want %q", got, key, want)
	}
}

// life is what a key of namespace n has left in Redis: policy.Forever, or 0 when it
// is not there.
func (w *world) life(key string) time.Duration {
	w.Helper()
	m := w.do("PTTL", at(key))
	ms, err := m.AsInt64()
	if err != nil {
		w.Fatal(err)
	}
	switch ms {
	case -1:
		return policy.Forever
	case -2:
		return 0
	default:
		return time.Duration(ms) * time.Millisecond
	}
}

// near checks a life that began at most a moment ago: exact in virtual time.
func (w *world) near(what string, got, want time.Duration) {
	w.Helper()
	slack := time.Second
	if w.virtual {
		slack = 5 * time.Millisecond
	}
	if got > want || got < want-slack {
		w.Fatalf("%s is %v, want %v", what, got, want)
	}
}

// until waits for a condition, by whichever clock runs.
func (w *world) until(what string, is func() bool) {
	w.Helper()
	for range 20_000 {
		if is() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	w.Fatalf("never: %s", what)
}

// moment lets pass what would show if something happened that must not.
func (w *world) moment() { time.Sleep(50 * time.Millisecond) }

// listener hears a channel as a stranger.
type listener struct {
	w      *world
	mu     sync.Mutex
	frames []frame.Frame // guarded by mu
}

// listen subscribes to the channel of namespace n.
func (w *world) listen() *listener {
	w.Helper()
	l := &listener{w: w}
	conn, giveUp := w.client(w.wire()).Dedicate()
	w.Cleanup(giveUp)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
		f, err := frame.Decode(m.Message)
		if err != nil {
			w.Errorf("heard %q: %v", m.Message, err)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.frames = append(l.frames, f)
	}})
	if err := conn.Do(ctx, conn.B().Subscribe().Channel(l1.DefaultKeyPrefix+"inv:n").Build()).Error(); err != nil {
		w.Fatal(err)
	}
	return l
}

// keys are the keys of the frames heard so far, each frame's joined by commas;
// frames without keys are left out.
func (l *listener) keys() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys []string
	for _, f := range l.frames {
		if len(f.Keys) > 0 {
			keys = append(keys, strings.Join(f.Keys, ","))
		}
	}
	return keys
}

// publish sends a frame of keys as an unknown instance would.
func (w *world) publish(keys ...string) {
	w.Helper()
	w.do("PUBLISH", l1.DefaultKeyPrefix+"inv:n",
		string(frame.Append(nil, frame.Frame{Sender: entry.NewNodeID(), Number: 1, Keys: keys})))
}

// logbook keeps what an instance logs.
type logbook struct {
	mu    sync.Mutex
	lines []string // guarded by mu; "LEVEL message"
}

func (l *logbook) Enabled(context.Context, slog.Level) bool { return true }
func (l *logbook) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logbook) WithGroup(string) slog.Handler            { return l }

func (l *logbook) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprint(r.Level, " ", r.Message))
	return nil
}

// count is how many lines contain text.
func (l *logbook) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

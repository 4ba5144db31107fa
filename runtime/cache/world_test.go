package cache_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/channel"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/runtime/policy"
)

// world is a bubble with one Redis, one source and any number of instances:
// the real scripts, the real client library, virtual time.
type world struct {
	t      *testing.T
	redis  *l1.Embedded
	source *source
	log    *slog.Logger
}

// bubble runs test in a world.
func bubble(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, redis: l1.NewEmbedded(), source: &source{}, log: slog.New(slog.NewTextHandler(io.Discard, nil))}
		t.Cleanup(w.redis.Close)
		test(w)
	})
}

// instance is one process: its own connections, stamps and L2.
type instance struct {
	*cache.Cache
	stage *stage
}

// instance starts one with the defaults changed by change.
func (w *world) instance(change ...func(*cache.Options)) *instance {
	w.t.Helper()
	client := l1.Open(l1.Options{Addresses: []string{"embedded"}, Dial: w.redis.Dial, Logger: w.log})
	feed := channel.Open(client, channel.Options{Logger: w.log})
	node := entry.NewNodeID()
	st := &stage{L1: client.Namespace("n", node)}
	o := cache.Options{Name: "n", L1: st, Feed: feed, Node: node, Loader: w.source, Logger: w.log,
		Policy: policy.Policy{Codec: policy.String, TTLJitter: policy.NoJitter}}
	for _, c := range change {
		c(&o)
	}
	c, err := cache.New(context.Background(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
		feed.Close()
		client.Close()
	})
	return &instance{c, st}
}

// trust lets pass the time in which the instances' copies live shorter because a
// lost message could go unnoticed.
func (w *world) trust() { time.Sleep(20 * time.Second) }

// get reads and fails the test on an error.
func (i *instance) get(t *testing.T, key string) cache.Lookup {
	t.Helper()
	found, err := i.Get(context.Background(), key)
	if err != nil {
		t.Fatalf("get %q: %v", key, err)
	}
	return found
}

// raw is the state letter and payload under a key, "" when there is none.
func (w *world) raw(key string) string {
	w.t.Helper()
	client := l1.Open(l1.Options{Addresses: []string{"embedded"}, Dial: w.redis.Dial, Logger: w.log})
	defer client.Close()
	reading, err := client.Namespace("n", entry.NewNodeID()).Read(context.Background(), key, l1.Ask{})
	if err != nil {
		w.t.Fatal(err)
	}
	switch reading.Kind {
	case l1.Hit:
		return string(reading.Entry.State) + reading.Entry.Payload
	case l1.Held:
		return "L"
	case l1.Miss:
		return ""
	default:
		return fmt.Sprint("?", reading.Kind)
	}
}

// source is what loaders read: rows that a writer changes, with a gate.
type source struct {
	mu    sync.Mutex
	rows  map[string]string        // guarded by mu
	calls map[string]int           // guarded by mu
	gates map[string]chan struct{} // guarded by mu
	fails map[string]error         // guarded by mu
	bulk  int                      // guarded by mu; calls of LoadAll
}

func (s *source) set(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		s.rows = map[string]string{}
	}
	s.rows[key] = value
}

func (s *source) fail(key string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails == nil {
		s.fails = map[string]error{}
	}
	s.fails[key] = err
}

// hold makes the next load of key stop after it has read its row, until the
// returned function is called. Later loads do not stop.
func (s *source) hold(key string) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates == nil {
		s.gates = map[string]chan struct{}{}
	}
	gate := make(chan struct{})
	s.gates[key] = gate
	return sync.OnceFunc(func() { close(gate) })
}

func (s *source) count(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[key]
}

func (s *source) Load(ctx context.Context, req loader.Request) (loader.Result, error) {
	s.mu.Lock()
	row, ok := s.rows[req.Key]
	err := s.fails[req.Key]
	gate := s.gates[req.Key]
	delete(s.gates, req.Key)
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	s.calls[req.Key]++
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return loader.Result{}, ctx.Err()
		}
	}
	switch {
	case err != nil:
		return loader.Result{}, err
	case !ok:
		return loader.Result{Status: loader.Absent}, nil
	}
	return loader.Result{Value: []byte(row)}, nil
}

// bulkSource is a source that loads batches.
type bulkSource struct{ *source }

func (b bulkSource) LoadAll(ctx context.Context, reqs []loader.Request) ([]loader.Outcome, error) {
	b.mu.Lock()
	b.bulk++
	b.mu.Unlock()
	outcomes := make([]loader.Outcome, len(reqs))
	for i, req := range reqs {
		outcomes[i].Result, outcomes[i].Err = b.Load(ctx, req)
	}
	return outcomes, nil
}

// stage is L1 with a hook before and after each verb: where a test puts the
// bad schedule instead of hoping for it.
type stage struct {
	cache.L1
	mu     sync.Mutex
	before map[string]func() // guarded by mu; by verb, each runs once
	after  map[string]func() // guarded by mu; once Redis has answered
	counts map[string]int    // guarded by mu
	faults map[string]error  // guarded by mu; by verb, instead of sending
}

// state is the letter of the entry under a key, "" when there is none.
func (w *world) state(key string) string {
	w.t.Helper()
	client := l1.Open(l1.Options{Addresses: []string{"embedded"}, Dial: w.redis.Dial, Logger: w.log})
	defer client.Close()
	conn, giveUp, err := client.Subscriber()
	if err != nil {
		w.t.Fatal(err)
	}
	defer giveUp()
	content, err := conn.Do(context.Background(), conn.B().Getrange().Key("cocache:{}n:"+key).Start(3).End(3).Build()).ToString()
	if err != nil {
		w.t.Fatal(err)
	}
	return content
}

// breakOff makes a verb fail without being sent; nil mends it.
func (s *stage) breakOff(verb string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults == nil {
		s.faults = map[string]error{}
	}
	s.faults[verb] = err
}

func (s *stage) fault(verb string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults[verb]
}

func (s *stage) stageBefore(verb string, do func()) { s.set(&s.before, verb, do) }
func (s *stage) stageAfter(verb string, do func())  { s.set(&s.after, verb, do) }

func (s *stage) set(hooks *map[string]func(), verb string, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *hooks == nil {
		*hooks = map[string]func(){}
	}
	(*hooks)[verb] = do
}

func (s *stage) take(hooks map[string]func(), verb string) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	do := hooks[verb]
	delete(hooks, verb)
	if do == nil {
		return func() {}
	}
	return do
}

// enter counts a verb, runs its hook and returns the one for after.
func (s *stage) enter(verb string) func() {
	s.mu.Lock()
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	s.counts[verb]++
	before, after := s.before, s.after
	s.mu.Unlock()
	s.take(before, verb)()
	return s.take(after, verb)
}

// commands is how often each verb was sent since the last call.
func (s *stage) commands() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, verb := range []string{"read", "fill", "release", "postpone", "reclaim", "put", "invalidate"} {
		if n := s.counts[verb]; n > 0 {
			fmt.Fprintf(&b, "%s %d ", verb, n)
		}
	}
	clear(s.counts)
	return strings.TrimSpace(b.String())
}

func (s *stage) Read(ctx context.Context, key string, ask l1.Ask) (l1.Reading, error) {
	defer s.enter("read")()
	return s.L1.Read(ctx, key, ask)
}

func (s *stage) ReadAll(ctx context.Context, keys []string, ask l1.Ask) []l1.Outcome {
	defer s.enter("read")()
	return s.L1.ReadAll(ctx, keys, ask)
}

func (s *stage) Fill(ctx context.Context, key string, token entry.Token, f l1.Fill) (bool, error) {
	defer s.enter("fill")()
	return s.L1.Fill(ctx, key, token, f)
}

func (s *stage) FillAll(ctx context.Context, fills []l1.KeyFill) []l1.FillOutcome {
	defer s.enter("fill")()
	return s.L1.FillAll(ctx, fills)
}

func (s *stage) Release(ctx context.Context, key string, token entry.Token) error {
	defer s.enter("release")()
	return s.L1.Release(ctx, key, token)
}

func (s *stage) ReleaseAll(ctx context.Context, releases []l1.KeyToken) []error {
	defer s.enter("release")()
	return s.L1.ReleaseAll(ctx, releases)
}

func (s *stage) Postpone(ctx context.Context, key string, token entry.Token, leaseTTL, pause time.Duration) error {
	defer s.enter("postpone")()
	return s.L1.Postpone(ctx, key, token, leaseTTL, pause)
}

func (s *stage) Reclaim(ctx context.Context, key, content string, ttl time.Duration) (entry.Token, bool, error) {
	defer s.enter("reclaim")()
	return s.L1.Reclaim(ctx, key, content, ttl)
}

func (s *stage) PutAll(ctx context.Context, puts []l1.KeyFill) []error {
	defer s.enter("put")()
	if err := s.fault("put"); err != nil {
		return slices.Repeat([]error{err}, len(puts))
	}
	return s.L1.PutAll(ctx, puts)
}

func (s *stage) Invalidate(ctx context.Context, keys []string, staleTTL time.Duration) []error {
	defer s.enter("invalidate")()
	if err := s.fault("invalidate"); err != nil {
		return slices.Repeat([]error{err}, len(keys))
	}
	return s.L1.Invalidate(ctx, keys, staleTTL)
}

// del removes a key as a stranger would, without telling anybody.
func (w *world) del(key string) { w.command("DEL", "cocache:{}n:"+key) }

// command sends one to Redis, past everything of ours.
func (w *world) command(words ...string) {
	w.t.Helper()
	client := l1.Open(l1.Options{Addresses: []string{"embedded"}, Dial: w.redis.Dial, Logger: w.log})
	defer client.Close()
	conn, giveUp, err := client.Subscriber()
	if err != nil {
		w.t.Fatal(err)
	}
	defer giveUp()
	if err := conn.Do(context.Background(), conn.B().Arbitrary(words...).Build()).Error(); err != nil {
		w.t.Fatal(err)
	}
}

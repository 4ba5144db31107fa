package bench

import (
	"context"
	"crypto/tls"
	"net"
	"testing"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/tests/redistest"
	"github.com/redis/rueidis"
)

// counted is what operations cost the server.
type counted struct {
	scripts int // run by the client
	trips   int // writes on the client's connections
	all     map[string]int
}

// count runs n operations, one at a time, with all connections warm.
func count(t testing.TB, s *redistest.Server, w *wire, n int, op func(i int)) counted {
	t.Helper()
	before, writes := commands(t, s), w.writes.Load()
	for i := range n {
		op(i)
	}
	c := counted{trips: int(w.writes.Load() - writes), all: minus(commands(t, s), before)}
	for name, calls := range c.all {
		switch name {
		case "evalsha", "eval":
			c.scripts += calls
		case "time", "get", "getrange", "set": // what the scripts call
		default:
			t.Errorf("%d × %s, which nothing here should send", calls, name)
		}
	}
	return c
}

func wired(w *wire) func(*cache.Options, *l1.Options) {
	return func(_ *cache.Options, o *l1.Options) { o.Dial = w.dial }
}

// TestCommandsPerOperation holds how many commands, each a round trip, an
// operation takes.
func TestCommandsPerOperation(t *testing.T) {
	const n = 200
	s := redistest.Start(t)
	made := loader.Func(func(_ context.Context, req loader.Request) (loader.Result, error) {
		return loader.Result{Value: []byte(missValue(req.Key))}, nil
	})
	w1, w2 := &wire{address: s.Addr}, &wire{address: s.Addr}
	c := openCache(t, s, made, wired(w1), noJitter)
	remote := openCache(t, s, neverLoads, wired(w2), withoutL2)
	get := func(c *instance, from cache.Source, i int) {
		key := missKey("key", int64(i))
		found, err := c.Get(background, key)
		if err != nil || found.Source != from || found.Value != missValue(key) {
			t.Fatalf("%s: %+v, %v", key, found, err)
		}
	}
	for i := n; i < n+50; i++ { // the server learns the scripts, the clients make all their connections
		get(c, cache.FromLoader, i)
		get(remote, cache.FromL1, i)
	}

	for _, test := range []struct {
		name    string
		wire    *wire
		scripts int
		op      func(i int)
	}{
		{"cold miss", w1, 2 * n, func(i int) { get(c, cache.FromLoader, i) }},
		{"hit in L2", w1, 0, func(i int) { get(c, cache.FromL2, i) }},
		{"hit in L1", w2, n, func(i int) { get(remote, cache.FromL1, i) }},
	} {
		got := count(t, s, test.wire, n, test.op)
		if got.scripts != test.scripts || got.trips != test.scripts {
			t.Errorf("%d × %s: %d commands in %d round trips, want %d in as many; the server ran %v",
				n, test.name, got.scripts, got.trips, test.scripts, got.all)
		}
		t.Logf("%d × %s: %d commands, %d round trips; the server ran %v", n, test.name, got.scripts, got.trips, got.all)
	}
}

// TestCommandsOfAside counts the peer of the cold miss in the same way, so that
// the figures in RESULTS.md can be checked.
func TestCommandsOfAside(t *testing.T) {
	const n = 200
	s := redistest.Start(t)
	w := &wire{address: s.Addr}
	aside := openAside(t, s, func(o *rueidis.ClientOption) {
		o.ForceSingleClient = true
		o.DialCtxFn = func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return w.dial(ctx)
		}
	})
	get := func(i int) {
		key := missKey("them", int64(i))
		value, err := aside.Get(background, ttl, key, func(_ context.Context, key string) (string, error) { return missValue(key), nil })
		if err != nil || value != missValue(key) {
			t.Fatalf("%s: %q, %v", key, value, err)
		}
	}
	for i := n; i < n+50; i++ {
		get(i)
	}
	before, writes := commands(t, s), w.writes.Load()
	for i := range n {
		get(i)
	}
	t.Logf("%d × cold miss: %d round trips; the server ran %v", n, w.writes.Load()-writes, minus(commands(t, s), before))
}

// TestGetAllIsOneTrip holds that a batch is one round trip.
func TestGetAllIsOneTrip(t *testing.T) {
	s := redistest.Start(t)
	w := &wire{address: s.Addr}
	c := openCache(t, s, neverLoads, wired(w), withoutL2)
	items := makeItems(100, 100)
	c.fill(t, items)
	keys := make([]string, len(items))
	for i := range items {
		keys[i] = items[i].key
	}
	for _, it := range items { // the server learns the script, the client makes all its connections
		readWhole(t, c, it)
	}
	got := count(t, s, w, 1, func(int) {
		for i, item := range c.GetAll(background, keys) {
			if item.Err != nil || item.Lookup.Value != items[i].value {
				t.Fatal(item.Err, items[i].wrong(item.Lookup.Value))
			}
		}
	})
	if got.scripts != len(keys) || got.trips > 5 { // the write buffer may fill in between
		t.Errorf("%d commands in %d writes, want %d in at most 5; the server ran %v", got.scripts, got.trips, len(keys), got.all)
	}
}

// TestAllocationsPerHit holds that a hit in L2 allocates nothing.
func TestAllocationsPerHit(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	s := redistest.Start(t)
	c := openCache(t, s, neverLoads)
	items := makeItems(64, 100)
	c.fill(t, items)
	for _, it := range items {
		readWhole(t, c, it)
	}
	i := 0
	allocs := testing.AllocsPerRun(10_000, func() {
		it := &items[i%len(items)]
		i++
		found, err := c.Get(background, it.key)
		if err != nil || found.Source != cache.FromL2 || !it.is(found.Value) {
			t.Fatal(err, it.wrong(found.Value))
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations per hit, want 0", allocs)
	}
}

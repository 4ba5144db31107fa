// Package bench measures the cache against the libraries that its users would
// otherwise take, in one process and one run, and guards the counts that no
// noise can move: allocations and Redis commands per operation.
//
// It owns no product code. A row (rows_test.go) is one question with one side
// of ours and one or more of others'; TestRatios answers it as a ratio,
// BenchmarkRows runs the same sides for profiles, and the guards
// (guard_test.go) are ordinary tests.
package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/channel"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/runtime/policy"
	"github.com/cocache/cocache/tests/redistest"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidisaside"
)

var (
	background = context.Background()
	quiet      = slog.New(slog.NewTextHandler(io.Discard, nil))
)

const (
	namespace = "bench"
	ttl       = 10 * time.Minute
)

// item is a key and the value that every side must give for it: a JSON text,
// the default codec, whose first digits are the key's number.
type item struct{ key, value string }

func makeItem(i, size int) item {
	number := fmt.Sprintf("%08d", i)
	return item{"key:" + number, `"` + number + strings.Repeat("x", size-len(number)-2) + `"`}
}

func makeItems(n, size int) []item {
	items := make([]item, n)
	for i := range items {
		items[i] = makeItem(i, size)
	}
	return items
}

// is reports whether got is the item's value, by its length and its number:
// cheap enough for the loops that are timed. Every row also compares whole
// values before it is timed.
func (it *item) is(got string) bool {
	return len(got) == len(it.value) && got[:9] == it.value[:9]
}

func (it *item) wrong(got string) error {
	return fmt.Errorf("%s: got %d bytes %.20q, want %d bytes %.20q", it.key, len(got), got, len(it.value), it.value)
}

// stored is the item's key in Redis, as a namespace of ours names it.
func (it *item) stored() string { return l1.DefaultKeyPrefix + "{}" + namespace + ":" + it.key }

// instance is a cache as a process has it: its own connections and L2.
type instance struct {
	*cache.Cache
	client *l1.Client
}

// openCache opens a cache on the server with everything at its default but for
// what change says.
func openCache(t testing.TB, s *redistest.Server, load loader.Loader, change ...func(*cache.Options, *l1.Options)) *instance {
	t.Helper()
	node := entry.NewNodeID()
	conn := l1.Options{Addresses: []string{s.Addr}, Logger: quiet}
	o := cache.Options{Name: namespace, Node: node, Loader: load, Logger: quiet}
	for _, c := range change {
		c(&o, &conn)
	}
	client := l1.Open(conn)
	feed := channel.Open(client, channel.Options{Logger: quiet})
	o.L1, o.Feed = client.Namespace(namespace, node), feed
	c, err := cache.New(background, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(background); err != nil {
			t.Error(err)
		}
		feed.Close()
		client.Close()
	})
	return &instance{c, client}
}

// withoutL2 leaves L1 to answer every read.
func withoutL2(o *cache.Options, _ *l1.Options) { o.Policy.Local.Disabled = true }

// noJitter makes runs alike.
func noJitter(o *cache.Options, _ *l1.Options) { o.Policy.TTLJitter = policy.NoJitter }

// neverLoads is the loader of rows that must not load.
var neverLoads = loader.Func(func(_ context.Context, req loader.Request) (loader.Result, error) {
	return loader.Result{}, loader.Failf("unexpected load of %q", req.Key)
})

// fill puts the items into L1.
func (c *instance) fill(t testing.TB, items []item) {
	t.Helper()
	for _, it := range items {
		if err := c.Put(background, it.key, []byte(it.value), cache.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// openRueidis opens the client library that ours is built on, with the
// settings that ours gives it.
func openRueidis(t testing.TB, s *redistest.Server, change ...func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidisOptions(s, change...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func rueidisOptions(s *redistest.Server, change ...func(*rueidis.ClientOption)) rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress: []string{s.Addr}, DisableRetry: true, DisableCache: true,
		ConnWriteTimeout: 2 * time.Second, Dialer: net.Dialer{Timeout: time.Second},
		ClientSetInfo: rueidis.DisableClientSetInfo,
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

// clientCaching switches on what rueidis calls client side caching.
func clientCaching(o *rueidis.ClientOption) { o.DisableCache = false }

func openAside(t testing.TB, s *redistest.Server, change ...func(*rueidis.ClientOption)) rueidisaside.CacheAsideClient {
	t.Helper()
	o := rueidisOptions(s, append(change, clientCaching)...)
	c, err := rueidisaside.NewClient(rueidisaside.ClientOption{ClientOption: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// wire counts the writes on all connections that it makes, heartbeats aside:
// with one caller at a time, each is a round trip.
type wire struct {
	address string
	writes  atomic.Int64
}

func (w *wire) dial(ctx context.Context) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.address)
	return &wireConn{conn, w}, err
}

type wireConn struct {
	net.Conn
	wire *wire
}

func (c *wireConn) Write(p []byte) (int, error) {
	if !bytes.Contains(p, []byte("$4\r\nPING\r\n")) {
		c.wire.writes.Add(1)
	}
	return c.Conn.Write(p)
}

// commands reads how often the server has run each command, those that
// scripts call included.
func commands(t testing.TB, s *redistest.Server) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for line := range strings.Lines(s.Do(t, "INFO", "commandstats")) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok || name == "info" || name == "ping" { // ours to measure, and heartbeats
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		n, err := strconv.Atoi(calls)
		if err != nil {
			t.Fatalf("commandstats line %q: %v", line, err)
		}
		counts[name] = n
	}
	return counts
}

// minus is what came since before.
func minus(after, before map[string]int) map[string]int {
	grown := map[string]int{}
	for name, n := range after {
		if d := n - before[name]; d != 0 {
			grown[name] = d
		}
	}
	return grown
}

// redisVersion is what the installed server calls itself, as in 7.0.15.
func redisVersion() string {
	out, err := exec.Command("redis-server", "--version").Output()
	if err != nil {
		return "of unknown version"
	}
	_, version, _ := strings.Cut(string(out), "v=")
	version, _, _ = strings.Cut(version, " ")
	return version
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/tests/redistest"
	"github.com/maypok86/otter/v2"
	"github.com/redis/rueidis"
	"github.com/viccon/sturdyc"
)

// row is one question: how ours compares with each peer at one job.
type row struct {
	name    string
	workers int // goroutines that share the operations
	// open sets both up on a server of their own; the first side is ours.
	open func(t testing.TB, s *redistest.Server) []side
}

// side is one way to do the job.
type side struct {
	name   string
	target target // of ours against it; zero for ours and for what only explains
	// loop does n operations as one of the row's workers and fails on the
	// first that does not give what it should.
	loop func(worker, n int) error
}

// target is what ours must reach against a side: at most so much of its time
// per operation, or at least so much of its throughput.
type target struct {
	cost  float64 // our time / its time, at most
	speed float64 // its time / our time, at least
}

// faster than the peer, by however little.
var faster = target{cost: 0.995}

var rows = []row{
	{"L2 hit", 1, l2Hit},
	{"L2 hit, two goroutines", 2, l2Hit},
	{"L1 hit of 100 B, 64 callers", 64, func(t testing.TB, s *redistest.Server) []side { return l1Hit(t, s, 100) }},
	{"L1 hit of 10 KiB, 64 callers", 64, func(t testing.TB, s *redistest.Server) []side { return l1Hit(t, s, 10<<10) }},
	{"cold miss", 1, coldMiss},
	{"cold miss, 64 callers", 64, coldMiss},
	{"cold miss of a narrow source, 64 callers", 64, gathered},
	{"getAll of 100 from L1", 1, getAll},
	{"getAll of 100 from L1, 8 callers", 8, getAll},
}

// stride walks a power of two of items in an order that hardware does not
// foresee as one run.
const stride = 389

// l2Hit: 1,024 keys of 100 B, all in the process.
func l2Hit(t testing.TB, s *redistest.Server) []side {
	items := makeItems(1024, 100)
	c := openCache(t, s, neverLoads)
	c.fill(t, items)
	for _, it := range items {
		readWhole(t, c, it)
	}

	bare := otter.Must(&otter.Options[string, string]{MaximumSize: 10_000})
	expiring := otter.Must(&otter.Options[string, string]{MaximumSize: 10_000,
		ExpiryCalculator: otter.ExpiryWriting[string, string](ttl)})
	t.Cleanup(func() { bare.StopAllGoroutines(); expiring.StopAllGoroutines() })
	sturdy := sturdyc.New[string](10_000, 64, ttl, 10)
	for _, it := range items {
		bare.Set(it.key, it.value)
		expiring.Set(it.key, it.value)
		sturdy.Set(it.key, it.value)
	}
	noFetch := func(context.Context) (string, error) { return "", errors.New("unexpected fetch") }

	redis := openRueidis(t, s, clientCaching)
	for _, it := range items {
		if err := redis.Do(background, redis.B().Set().Key(it.key).Value(it.value).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}

	return []side{
		{"cocache Get", target{}, func(w, n int) error {
			for i := range n {
				it := &items[(w+i*stride)%len(items)]
				found, err := c.Get(background, it.key)
				if err != nil || found.Source != cache.FromL2 || !it.is(found.Value) {
					return errors.Join(err, it.wrong(found.Value))
				}
			}
			return nil
		}},
		{"otter GetIfPresent", target{cost: 1.6}, func(w, n int) error { return otterLoop(bare, items, w, n) }},
		{"otter GetIfPresent, expiring", target{}, func(w, n int) error { return otterLoop(expiring, items, w, n) }},
		{"sturdyc GetOrFetch", faster, func(w, n int) error {
			for i := range n {
				it := &items[(w+i*stride)%len(items)]
				if value, err := sturdy.GetOrFetch(background, it.key, noFetch); err != nil || !it.is(value) {
					return errors.Join(err, it.wrong(value))
				}
			}
			return nil
		}},
		{"rueidis DoCache", faster, func(w, n int) error {
			for i := range n {
				it := &items[(w+i*stride)%len(items)]
				value, err := redis.DoCache(background, redis.B().Get().Key(it.key).Cache(), ttl).ToString()
				if err != nil || !it.is(value) {
					return errors.Join(err, it.wrong(value))
				}
			}
			return nil
		}},
	}
}

func otterLoop(o *otter.Cache[string, string], items []item, w, n int) error {
	for i := range n {
		it := &items[(w+i*stride)%len(items)]
		if value, ok := o.GetIfPresent(it.key); !ok || !it.is(value) {
			return it.wrong(value)
		}
	}
	return nil
}

// readWhole reads a key and compares every byte.
func readWhole(t testing.TB, c *instance, it item) cache.Lookup {
	t.Helper()
	found, err := c.Get(background, it.key)
	if err != nil || found.Value != it.value {
		t.Fatal(err, it.wrong(found.Value))
	}
	return found
}

// l1Hit: each of 64 callers reads 64 keys that only it reads, so that no two
// reads merge: one command per operation on both sides. The peers GET the very
// entries that ours reads, header included.
func l1Hit(t testing.TB, s *redistest.Server, size int) []side {
	const perWorker = 64
	items := makeItems(64*perWorker, size)
	c := openCache(t, s, neverLoads, withoutL2)
	c.fill(t, items)
	for _, it := range items {
		readWhole(t, c, it)
	}
	redis := openRueidis(t, s)
	read := readScript(t, redis)
	mine := func(w, i int) *item { return &items[w*perWorker+i*stride%perWorker] }
	return []side{
		{"cocache Get", target{}, func(w, n int) error {
			for i := range n {
				it := mine(w, i)
				found, err := c.Get(background, it.key)
				if err != nil || found.Source != cache.FromL1 || !it.is(found.Value) {
					return errors.Join(err, it.wrong(found.Value))
				}
			}
			return nil
		}},
		{"rueidis GET", target{speed: 0.85}, func(w, n int) error {
			for i := range n {
				it := mine(w, i)
				content, err := redis.Do(background, redis.B().Get().Key(it.stored()).Build()).ToString()
				if err != nil || !it.is(payload(content)) {
					return errors.Join(err, it.wrong(content))
				}
			}
			return nil
		}},
		{"rueidis EVALSHA read.lua", target{}, func(w, n int) error {
			for i := range n {
				it := mine(w, i)
				parts, err := redis.Do(background, redis.B().Evalsha().Sha1(read).Numkeys(1).Key(it.stored()).
					Arg("999999999999999", "", "10000", "0").Build()).ToArray()
				if err != nil || len(parts) != 4 {
					return fmt.Errorf("read %s: %d parts, %w", it.key, len(parts), err)
				}
				if content, err := parts[2].ToString(); err != nil || !it.is(payload(content)) {
					return errors.Join(err, it.wrong(content))
				}
			}
			return nil
		}},
	}
}

// payload is an entry's without its header and content type.
func payload(content string) string { return content[min(entry.HeaderSize, len(content)):] }

// coldMiss: every operation reads a key that nobody has read before, through a
// loader that only makes the value.
func coldMiss(t testing.TB, s *redistest.Server) []side {
	c := openCache(t, s, loader.Func(func(_ context.Context, req loader.Request) (loader.Result, error) {
		return loader.Result{Value: []byte(missValue(req.Key))}, nil
	}))
	aside := openAside(t, s)
	var ours, theirs atomic.Int64 // numbers of the last keys
	return []side{
		{"cocache Get", target{}, func(_, n int) error {
			for range n {
				key := missKey("ours", ours.Add(1))
				found, err := c.Get(background, key)
				if err != nil || found.Source != cache.FromLoader || !found.StoredL1 || found.Value != missValue(key) {
					return fmt.Errorf("%s: %+v, %w", key, found, err)
				}
			}
			return nil
		}},
		{"rueidisaside Get", faster, func(_, n int) error {
			for range n {
				key, loads := missKey("them", theirs.Add(1)), 0
				value, err := aside.Get(background, ttl, key, func(_ context.Context, key string) (string, error) {
					loads++
					return missValue(key), nil
				})
				if err != nil || loads != 1 || value != missValue(key) {
					return fmt.Errorf("%s: %d loads, %q, %w", key, loads, value, err)
				}
			}
			return nil
		}},
	}
}

func missKey(who string, n int64) string { return fmt.Sprintf("%s:%011d", who, n) }

// missValue is 100 B of JSON that tell the key.
func missValue(key string) string { return `"` + key + filler[len(key):] + `"` }

var filler = strings.Repeat("x", 98)

// getAll: 100 keys of 100 B in one call, all in L1.
func getAll(t testing.TB, s *redistest.Server) []side {
	const perWorker = 100
	items := makeItems(8*perWorker, 100)
	c := openCache(t, s, neverLoads, withoutL2)
	c.fill(t, items)
	redis := openRueidis(t, s)
	read := readScript(t, redis)
	keys := make([]string, len(items))
	for i := range items {
		keys[i] = items[i].key
		readWhole(t, c, items[i])
	}
	return []side{
		{"cocache GetAll", target{}, func(w, n int) error {
			mine := items[w*perWorker:][:perWorker]
			for range n {
				for i, got := range c.GetAll(background, keys[w*perWorker:][:perWorker]) {
					if got.Err != nil || got.Lookup.Source != cache.FromL1 || !mine[i].is(got.Lookup.Value) {
						return errors.Join(got.Err, mine[i].wrong(got.Lookup.Value))
					}
				}
			}
			return nil
		}},
		{"rueidis DoMulti of GET", target{speed: 0.7}, func(w, n int) error {
			mine := items[w*perWorker:][:perWorker]
			for range n {
				batch := make(rueidis.Commands, len(mine))
				for i := range mine {
					batch[i] = redis.B().Get().Key(mine[i].stored()).Build()
				}
				for i, result := range redis.DoMulti(background, batch...) {
					content, err := result.ToString()
					if err != nil || !mine[i].is(payload(content)) {
						return errors.Join(err, mine[i].wrong(content))
					}
				}
			}
			return nil
		}},
		{"rueidis DoMulti of EVALSHA read.lua", target{}, func(w, n int) error {
			mine := items[w*perWorker:][:perWorker]
			for range n {
				batch := make(rueidis.Commands, len(mine))
				for i := range mine {
					batch[i] = redis.B().Evalsha().Sha1(read).Numkeys(1).Key(mine[i].stored()).
						Arg("999999999999999", "", "10000", "0").Build()
				}
				for i, result := range redis.DoMulti(background, batch...) {
					parts, err := result.ToArray()
					if err != nil || len(parts) != 4 {
						return fmt.Errorf("read %s: %d parts, %w", mine[i].key, len(parts), err)
					}
					if content, err := parts[2].ToString(); err != nil || !mine[i].is(payload(content)) {
						return errors.Join(err, mine[i].wrong(content))
					}
				}
			}
			return nil
		}},
	}
}

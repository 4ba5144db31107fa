package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/policy"
	"github.com/cocache/cocache/tests/wire"
)

// Staleness bounds and what is not promised (I).
var bounds = []claim{
	{"I1", "however readers and writers race, once a write has returned Redis holds nothing older", func(w *world) {
		w.race()
	}, everywhere},

	{"I2", "the instance that wrote reads nothing older from the moment its write returns", func(w *world) {
		a := w.instance()
		w.source.set("k", "v1")
		load := w.hold("k")
		slow := a.begin("k")
		load.wait()
		w.source.set("k", "v2")
		a.drop("k")
		a.want("k", "v2")
		load.release()
		slow.want("v1")
		a.want("k", "v2")
		w.source.set("k", "v3")
		a.put("k", "v3")
		a.want("k", "v3")
	}, everywhere},

	{"I3", "another instance follows when the message arrives, long before any other bound", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v1")
		b.want("k", "v1")
		b.want("k", "v1")
		w.source.set("k", "v2")
		a.put("k", "v2")
		b.follows("k", "v2", 0)
		a.drop("k")
		w.until("the copy is gone", func() bool { return b.get("k").Source != cache.FromL2 })
		if n := b.Stats().Resets["heartbeat"]; n != 0 {
			w.Fatalf("%d resets did that", n)
		}
	}, everywhere},

	{"I4 I17", "a message lost with its connection costs a heartbeat and its timeout at most, and is counted", func(w *world) {
		beats := func(o *options) { o.Heartbeat, o.commandTimeout = 300*time.Millisecond, 200*time.Millisecond }
		a, cut, dead := w.instance(), w.instance(beats), w.instance(beats)
		w.source.set("k", "v1")
		cut.want("k", "v1")
		dead.want("k", "v1")
		cut.wire.Down(errAway)
		cut.wire.Cut(wire.Feed)
		dead.wire.Dead(wire.Feed, true)
		w.source.set("k", "v2")
		a.put("k", "v2")
		for _, i := range []*instance{cut, dead} {
			i.follows("k", "v2", 500*time.Millisecond)
			w.until("the reset is counted", func() bool { return i.Stats().Resets["heartbeat"] > 0 })
		}
	}, everywhere},

	{"I5 I17", "a message lost silently costs local.max-age, or three heartbeats until it is missed, and is counted", func(w *world) {
		const beat = 150 * time.Millisecond
		beats := func(o *options) { o.Heartbeat = beat }
		a, audits := w.instance(beats), w.instance(beats)
		ages := w.instance(with(func(p *policy.Policy) { p.Local.MaxAge = 300 * time.Millisecond }))
		w.source.set("lost", "v1")
		time.Sleep(4 * beat) // the account is no longer young: copies are trusted
		began := time.Now()
		for _, i := range []*instance{audits, ages} {
			i.want("lost", "v1")
			i.wire.Lose("lost")
		}
		w.source.set("lost", "v2")
		a.put("lost", "v2")
		if w.virtual {
			w.moment()
			audits.want("lost", "v1")
			ages.want("lost", "v1")
		}
		ages.follows("lost", "v2", 300*time.Millisecond-time.Since(began))
		audits.follows("lost", "v2", 3*beat+beat/5-time.Since(began))
		w.until("the reset is counted", func() bool { return audits.Stats().Resets["audit"] > 0 })
	}, everywhere},

	{"I6 I17", "what was loaded past L1, for whatever reason, lives degraded-max-age, and each reason is counted", func(w *world) {
		const life = 200 * time.Millisecond
		short := with(func(p *policy.Policy) { p.Local.DegradedMaxAge, p.LeaseWait = life, 20*time.Millisecond })
		other, reader, away, owing := w.instance(), w.instance(short), w.instance(short), w.instance(short)
		degraded := map[cache.Reason]*instance{cache.RedisDown: away, cache.PendingInvalidation: owing}
		for _, reason := range []cache.Reason{cache.RedisDown, cache.PendingInvalidation, cache.LeaseWait,
			cache.FillRefused, cache.NewerFormat, cache.ForeignContent} {
			w.source.set(reason.String(), "v1")
			if degraded[reason] == nil {
				degraded[reason] = reader
			}
		}

		other.want(cache.NewerFormat.String(), "v1")
		w.do("SETRANGE", at(cache.NewerFormat.String()), "2", "2")
		w.do("RPUSH", at(cache.ForeignContent.String()), "x")
		w.hold(cache.LeaseWait.String())
		other.begin(cache.LeaseWait.String())
		w.until("another holds the lease", func() bool { return w.holds(cache.LeaseWait.String()) == "L" })
		refused := w.hold(cache.FillRefused.String())
		slow := reader.begin(cache.FillRefused.String())
		refused.wait()
		w.do("DEL", at(cache.FillRefused.String()))
		refused.release()
		away.cut()
		owing.cut()
		if o := owing.InvalidateAll(ctx, []string{cache.PendingInvalidation.String()})[0]; !o.Queued {
			w.Fatalf("the invalidation is %+v", o)
		}

		for reason, i := range degraded {
			found := i.get(reason.String())
			if reason == cache.FillRefused {
				found = slow.want("v1")
			}
			if found.Degraded != reason || found.Value != "v1" || found.LocalTTL > life || found.LocalTTL == 0 {
				w.Errorf("%s: %+v", reason, found)
			}
			if n := i.Stats().Degraded[reason.String()]; n != 1 {
				w.Errorf("%s is counted %d times", reason, n)
			}
			w.source.set(reason.String(), "v2")
		}
		time.Sleep(life)
		for reason, i := range degraded {
			i.want(reason.String(), "v2")
		}
	}, everywhere},

	{"I7 I17", "while an invalidation is tried again its instance reads past L1, others may read the old value, and it is counted", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v1")
		a.want("k", "v1")
		a.cut()
		w.source.set("k", "v2")
		if o := a.InvalidateAll(ctx, []string{"k"})[0]; !o.Queued {
			w.Fatalf("the invalidation is %+v", o)
		}
		if n := a.Stats().Pending; n != 1 {
			w.Fatalf("%d invalidations are pending", n)
		}
		a.want("k", "v2")
		b.want("k", "v1")
		a.mend()
		w.until("the invalidation is made good", func() bool { return a.Stats().Pending == 0 })
		w.wantHeld("k", "")
		b.follows("k", "v2", 0)
	}, everywhere},

	{"I8 I17", "an invalidation that is given up leaves the value to its end in L1, and is counted and logged as an error", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v1")
		w.source.ttl("k", 500*time.Millisecond)
		began := time.Now()
		b.want("k", "v1")
		a.cut()
		full := make([]string, 10_000)
		for n := range full {
			full[n] = "other " + strconv.Itoa(n)
		}
		a.InvalidateAll(ctx, full)
		w.source.set("k", "v2")
		var failed *cache.WriteError
		if o := a.InvalidateAll(ctx, []string{"k"})[0]; o.Queued || !errors.As(o.Err, &failed) {
			w.Fatalf("one that finds no room is %+v", o)
		}
		if n := a.Stats().Dropped; n != 1 {
			w.Errorf("%d are counted as dropped", n)
		}
		if n := a.log.count("ERROR invalidations dropped"); n != 1 {
			w.Errorf("%d lines tell of it", n)
		}
		if w.virtual {
			b.want("k", "v1")
		}
		b.follows("k", "v2", 500*time.Millisecond-time.Since(began))
		a.mend()
	}, everywhere},

	{"I9 I12", "a change that nobody told is seen when the value, or the negative entry, ends in L1", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.AbsentTTL = 300 * time.Millisecond }))
		w.source.set("k", "v1")
		w.source.ttl("k", 300*time.Millisecond)
		began := time.Now()
		a.want("k", "v1")
		a.want("new", "absent")
		w.source.set("k", "v2")
		w.source.set("new", "v1")
		if w.virtual {
			w.moment()
			a.want("k", "v1")
			a.want("new", "absent")
		}
		a.follows("k", "v2", 300*time.Millisecond-time.Since(began))
		a.follows("new", "v1", 0)
	}, everywhere},

	{"I13", "a value that a failover brings back ends when it would have, even where its expiry was lost", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v1")
		w.source.ttl("k", 400*time.Millisecond)
		began := time.Now()
		a.want("k", "v1")
		old := w.bytes("k")
		w.source.set("k", "v2")
		a.drop("k")
		w.do("SET", at("k"), old)
		if w.virtual {
			b.want("k", "v1")
		}
		b.follows("k", "v2", 400*time.Millisecond-time.Since(began))
	}, everywhere},

	{"I10", "who looks, loads and puts brings an old row back, for its ttl; a read through the cache does not", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("aside", "v1")
		w.source.set("through", "v1")
		load := w.hold("through")
		slow := a.begin("through")
		load.wait()
		if found, err := a.Peek(ctx, "aside"); err != nil || found.Kind != cache.Unpopulated {
			w.Fatalf("a look found %+v, %v", found, err)
		}
		row := "v1" // read from the source by hand
		w.source.set("aside", "v2")
		w.source.set("through", "v2")
		b.drop("aside", "through")
		if err := a.Put(ctx, "aside", []byte(row), cache.PutOptions{TTL: 300 * time.Millisecond}); err != nil {
			w.Fatal(err)
		}
		load.release()
		slow.want("v1")
		w.wantHeld("through", "")
		w.wantHeld("aside", "Vv1")
		b.follows("aside", "v2", 300*time.Millisecond)
	}, everywhere},

	{"I15", "a loader that reads a lagging replica after an invalidation caches the old row, for its ttl", func(w *world) {
		a := w.instance()
		w.source.ttl("k", 300*time.Millisecond)
		w.source.set("k", "v1") // what the replica still has
		a.drop("k")
		began := time.Now()
		a.want("k", "v1")
		w.wantHeld("k", "Vv1")
		w.source.set("k", "v2")
		a.follows("k", "v2", 300*time.Millisecond-time.Since(began))
	}, everywhere},

	{"I16", "a lease that ran out lets a second load begin: it is no lock", func(w *world) {
		short := with(func(p *policy.Policy) { p.LeaseTTL = 100 * time.Millisecond })
		a, b := w.instance(short), w.instance(short)
		w.source.set("k", "v")
		first := w.hold("k")
		one := a.begin("k")
		first.wait()
		second := w.hold("k")
		other := b.begin("k")
		second.wait()
		first.release()
		second.release()
		one.want("v")
		other.want("v")
	}, everywhere},
}

// follows checks that a read answers value within a time from now, and a moment
// of grace.
func (i *instance) follows(key, value string, within time.Duration) {
	i.w.Helper()
	began := time.Now()
	i.w.until(key+" is "+value, func() bool { return text(i.get(key)) == value })
	grace := time.Second
	if i.w.virtual {
		grace = 10 * time.Millisecond
	}
	if took := time.Since(began); took > max(within, 0)+grace {
		i.w.Fatalf("%s was %s after %v, want %v", key, value, took, within)
	}
}

var errAway = errors.New("nobody there")

// cut keeps an instance's commands from Redis; its messages still come.
func (i *instance) cut() {
	i.wire.Down(errAway)
	i.wire.Cut(wire.Commands)
}

func (i *instance) mend() { i.wire.Down(nil) }

// raced is a key that one instance alone writes: its rows are 0, 1, 2 …
type raced struct {
	key     string
	writer  *instance
	written atomic.Int64 // the last row whose write has returned
}

// race lets three instances read three keys while each writes one of them, a
// row and then an invalidation or a put, and holds every answer and what Redis
// has against the writes that had returned before.
func (w *world) race(change ...func(*options)) {
	w.source.inLoad(func(context.Context, string) { nap(4 * time.Millisecond) })
	var instances []*instance
	var keys []*raced
	for n := range 3 {
		i := w.instance(change...)
		i.wire.Slow(wire.Commands, time.Duration(n)*time.Millisecond)
		k := &raced{key: fmt.Sprint("k", n), writer: i}
		w.source.set(k.key, "0")
		instances, keys = append(instances, i), append(keys, k)
	}
	var over atomic.Bool
	var readers, writers sync.WaitGroup
	for _, i := range instances {
		for _, k := range keys {
			readers.Go(func() {
				for !over.Load() {
					k.read(i)
					nap(2 * time.Millisecond)
				}
			})
		}
	}
	for _, k := range keys {
		writers.Go(func() {
			for row := range int64(60) {
				k.write(row + 1)
				nap(6 * time.Millisecond)
			}
		})
	}
	writers.Wait()
	over.Store(true)
	readers.Wait()
}

func (k *raced) write(row int64) {
	w := k.writer.w
	w.source.set(k.key, fmt.Sprint(row))
	err := k.writer.Invalidate(ctx, k.key)
	if row%3 == 0 {
		err = k.writer.Put(ctx, k.key, fmt.Append(nil, row), cache.PutOptions{})
	}
	if err != nil {
		w.Errorf("write %d of %s: %v", row, k.key, err)
	}
	k.written.Store(row)
	if held, isValue := strings.CutPrefix(w.holds(k.key), "V"); isValue && k.older(held, row) {
		w.Errorf("redis holds %s of %s after the write of %d", held, k.key, row)
	}
}

// read reads on an instance. What it read itself, and all on the writer's, is no
// older than the last write; what is marked as stale may be, and not there.
func (k *raced) read(i *instance) {
	least := k.written.Load()
	found, err := i.Get(ctx, k.key)
	if err != nil {
		i.w.Errorf("read %s: %v", k.key, err)
		return
	}
	itself := !found.Joined && (found.Source == cache.FromL1 || found.Source == cache.FromLoader)
	if (itself || i == k.writer) && k.older(text(found), least) {
		i.w.Errorf("%s of %s came from %s after the write of %d", text(found), k.key, found.Source, least)
	}
}

func (k *raced) older(value string, row int64) bool {
	n, err := strconv.ParseInt(value, 10, 64)
	return err != nil || n < row
}

// nap lets up to that much time pass.
func nap(most time.Duration) { time.Sleep(rand.N(most)) }

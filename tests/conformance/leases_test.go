package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/runtime/policy"
	"github.com/cocache/cocache/tests/wire"
)

// L1: leases, states, transitions (A).
var leases = []claim{
	{"A9 A33 K32 K39", "a load that began before an invalidation never reaches L1; its own caller still gets the value", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v1")
		load, slow := a.startLoad("k")
		w.source.set("k", "v2")
		b.drop("k")
		load.release()
		slow.want("v1")
		w.wantHeld("k", "")
		b.want("k", "v2")
		a.want("k", "v2")
		w.wantHeld("k", "Vv2")
	}, everywhere},

	{"A10", "a load that began after the invalidation is kept", func(w *world) {
		a := w.instance()
		w.source.set("k", "v1")
		a.want("k", "v1")
		w.source.set("k", "v2")
		a.drop("k")
		a.want("k", "v2")
		w.wantHeld("k", "Vv2")
	}, everywhere},

	{"A2 A5 K40", "the read script itself takes the lease, and a fill ends it: two scripts for a miss", func(w *world) {
		a := w.instance()
		w.source.set("k", "v")
		a.sends("read fill", func() { a.want("k", "v") })
		w.wantHeld("k", "Vv")
		if token := w.entry("k").Token; token != (entry.Token{}) {
			w.Fatalf("the value still has the token %v", token)
		}
	}, everywhere},

	{"A1", "wherever another instance's write meets a read, nothing old stays", func(w *world) {
		a, b := w.instance(), w.instance()
		meetings := map[string]func(key string, write func()) *reading{
			"as the read is on its way": func(key string, write func()) (r *reading) {
				a.heldUp("read", func() { r = a.begin(key) }, write)
				return r
			},
			"when the row is read": func(key string, write func()) *reading {
				load, r := a.startLoad(key)
				write()
				load.release()
				return r
			},
			"as the fill is on its way": func(key string, write func()) *reading {
				load, r := a.startLoad(key)
				a.heldUp("fill", load.release, write)
				return r
			},
		}
		for when, meet := range meetings {
			for verb, write := range b.writes() {
				key := verb + " " + when
				w.source.set(key, "v1")
				r := meet(key, func() {
					w.source.set(key, "v2")
					if err := write(ctx, key); err != nil {
						w.Fatal(err)
					}
				})
				if _, err := r.wait(); err != nil {
					w.Fatal(err)
				}
				if w.holds(key) == "Vv1" {
					w.Fatalf("%s: the old value is in redis", key)
				}
				a.heard()
				a.want(key, "v2")
				b.want(key, "v2")
				w.wantHeld(key, "Vv2")
			}
		}
	}, everywhere},

	{"A1 A12 A16", "whatever readers, writers and cut connections do, redis holds no row older than a finished write", func(w *world) {
		hasty := func(o *options) {
			o.commandTimeout, o.Policy.InvalidateFailure = 10*time.Second, policy.Error
			o.Policy.LeaseTTL, o.Policy.LeaseWait, o.Policy.Local.DegradedMaxAge = 20*time.Millisecond, 10*time.Millisecond, 20*time.Millisecond
		}
		a, b, c := w.instance(hasty), w.instance(hasty), w.instance(hasty)
		keys := []string{"k0", "k1", "k2"}
		for _, key := range keys {
			w.source.set(key, "0")
		}
		w.source.inLoad(func(context.Context, string) { time.Sleep(rand.N(5 * time.Millisecond)) })
		const rows = 100
		var finished [3]atomic.Int64 // the row whose write has returned
		var writers, others sync.WaitGroup
		over := make(chan struct{})
		for at, key := range keys {
			writers.Go(func() {
				for row := int64(1); row <= rows; row++ {
					w.source.set(key, fmt.Sprint(row))
					if err := []*instance{a, b}[rand.N(2)].write(key, fmt.Sprint(row)); err != nil {
						w.Errorf("write %q: %v", key, err)
					}
					finished[at].Store(row)
					time.Sleep(rand.N(5 * time.Millisecond))
				}
			})
		}
		for _, i := range []*instance{a, b, c} {
			for range 3 {
				others.Go(func() {
					every(over, 2*time.Millisecond, func() { _, _ = i.Get(ctx, keys[rand.N(3)]) })
				})
			}
		}
		others.Go(func() { every(over, 60*time.Millisecond, func() { c.wire.Cut(wire.All) }) })
		go func() { writers.Wait(); close(over) }()
		for poll := 0; !closed(over); poll++ {
			at := poll % 3
			least := finished[at].Load()
			held := w.holds(keys[at])
			row, isValue := strings.CutPrefix(held, "V")
			if n, err := strconv.ParseInt(row, 10, 64); held == "?" || isValue && (err != nil || n < least) {
				w.Errorf("redis holds %q under %q after row %d was written", held, keys[at], least)
			}
			if w.virtual {
				time.Sleep(100 * time.Microsecond)
			}
		}
		others.Wait()
		for _, key := range keys {
			for _, i := range []*instance{a, b, c} {
				w.until("every instance has the last row", func() bool { return text(i.get(key)) == fmt.Sprint(rows) })
			}
		}
	}, everywhere},

	{"A2 A21", "a missing key that all instances ask for at once has one lease and one load", func(w *world) {
		w.source.set("k", "v")
		load := w.hold("k")
		var instances []*instance
		var readings []*reading
		for range 5 {
			i := w.instance()
			instances = append(instances, i)
			for range 50 {
				readings = append(readings, i.begin("k"))
			}
		}
		load.wait()
		load.release()
		for _, r := range readings {
			r.want("v")
		}
		var granted uint64
		for _, i := range instances {
			granted += i.Stats().Leases["granted"]
		}
		if loads := w.source.count("k"); granted != 1 || loads != 1 {
			w.Fatalf("%d leases and %d loads", granted, loads)
		}
	}, everywhere},

	{"A3 A25", "who finds a lease taken gets none, waits for lease-wait, then loads without writing to L1", func(w *world) {
		a := w.instance()
		b := w.instance(with(func(p *policy.Policy) { p.LeaseWait = 300 * time.Millisecond }))
		w.source.set("k", "v1")
		load, slow := a.startLoad("k")
		lease := w.bytes("k")
		w.source.set("k", "v2")
		began := time.Now()
		b.wire.Forget()
		found := b.begin("k").want("v2")
		w.took("the wait", time.Since(began), 300*time.Millisecond)
		if found.Degraded != cache.LeaseWait || found.StoredL1 {
			w.Fatalf("b's answer is %+v", found)
		}
		for _, verb := range b.sent() {
			if verb != "read" {
				w.Fatalf("b sent %s", verb)
			}
		}
		if w.bytes("k") != lease {
			w.Fatal("b changed a's lease")
		}
		load.release()
		slow.want("v1")
	}, everywhere},

	{"A4", "a fill leaves alone whatever is not exactly its own token", func(w *world) {
		a := w.instance()
		others := map[string][]string{
			"nothing":         nil,
			"another's lease": {"SET", encoded(entry.Entry{State: entry.Lease, Token: entry.Token{1}, Until: entry.Never})},
			"a value":         {"SET", encoded(entry.Entry{State: entry.Value, Until: entry.Never})},
			"strange bytes":   {"SET", "strange"},
			"a list":          {"RPUSH", "strange"},
		}
		for key, other := range others {
			w.source.set(key, "v")
			load, slow := a.startLoad(key)
			w.lay(key, other)
			before := w.content(key)
			load.release()
			slow.want("v")
			if after := w.content(key); after != before {
				w.Fatalf("%s became %q", key, after)
			}
		}
		if refused := a.Stats().Fills["refused"]; refused != uint64(len(others)) {
			w.Fatalf("%d fills were refused, want %d", refused, len(others))
		}
	}, everywhere},

	{"A6", "an invalidation takes the lease and so refuses the fill that comes", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v")
		load, slow := a.startLoad("k")
		w.wantHeld("k", "L")
		b.drop("k")
		w.wantHeld("k", "")
		load.release()
		slow.want("v")
		w.wantHeld("k", "")
		if refused := a.Stats().Fills["refused"]; refused != 1 {
			w.Fatalf("%d fills were refused", refused)
		}
	}, everywhere},

	{"A7", "a put replaces whatever is there, and a fill that comes later finds no token", func(w *world) {
		a, b := w.instance(), w.instance()
		for key, other := range map[string][]string{
			"nothing":          nil,
			"a value":          {"SET", encoded(entry.Entry{State: entry.Value, Until: entry.Never})},
			"a negative entry": {"SET", encoded(entry.Entry{State: entry.Negative, Until: entry.Never})},
			"strange bytes":    {"SET", "strange"},
			"a list":           {"RPUSH", "strange"},
		} {
			w.lay(key, other)
			b.put(key, "v2")
			w.wantHeld(key, "Vv2")
		}
		w.source.set("a lease", "v1")
		load, slow := a.startLoad("a lease")
		b.put("a lease", "v2")
		load.release()
		slow.want("v1")
		w.wantHeld("a lease", "Vv2")
	}, everywhere},

	{"A11", "no length of a load, and no instance, lets an invalidated row into L1", func(w *world) {
		const leaseTTL = 50 * time.Millisecond
		hasty := with(func(p *policy.Policy) { p.LeaseTTL = leaseTTL })
		a, b := w.instance(hasty), w.instance(hasty)
		for _, length := range []time.Duration{leaseTTL / 5, leaseTTL, 10 * leaseTTL} {
			readings := map[string]*reading{}
			var loads []*hold
			for name, i := range map[string]*instance{"a": a, "b": b} {
				key := fmt.Sprint(name, " for ", length)
				w.source.set(key, "v1")
				load := w.hold(key)
				readings[key] = i.begin(key)
				load.wait()
				loads = append(loads, load)
				w.source.set(key, "v2")
				a.drop(key)
			}
			time.Sleep(length)
			for _, load := range loads {
				load.release()
			}
			for key, r := range readings {
				r.want("v1")
				w.wantHeld(key, "")
				a.want(key, "v2")
				b.heard()
				b.want(key, "v2")
			}
		}
	}, everywhere},

	{"A13 A14", "no token is sent twice, and no instance has another's, nor its own of an earlier life", func(w *world) {
		w.know()
		seen, nodes := map[entry.Token]bool{}, map[entry.NodeID]bool{}
		slow := with(func(p *policy.Policy) { p.LeaseWait = 100 * time.Millisecond })
		for life := range 3 {
			a, b := w.instance(slow), w.instance(slow)
			key := fmt.Sprint("k", life)
			w.lay("strange"+key, []string{"SET", "strange"})
			load, r := a.startLoad(key)
			b.want(key, "absent") // after many looks
			load.release()
			r.want("absent")
			for _, i := range []*instance{a, b} {
				i.want("strange"+key, "absent")
				i.GetAll(ctx, []string{"x" + key, "y" + key, "z" + key})
				i.drop(key, "x"+key)
				i.want(key, "absent")
				i.close()
				tokens := i.tokens()
				if len(tokens) < 5 {
					w.Fatalf("%d tokens were sent, too few to tell", len(tokens))
				}
				for _, token := range tokens {
					if seen[token] {
						w.Fatalf("token %v was sent twice", token)
					}
					seen[token] = true
				}
				node := tokens[0].Node()
				if nodes[node] {
					w.Fatalf("node %v was there before", node)
				}
				nodes[node] = true
			}
		}
	}, everywhere},

	{"A15", "a destroyed token does not match the next lease of the key", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v1")
		first, slow := a.startLoad("k")
		b.drop("k")
		w.source.set("k", "v2")
		second, next := b.startLoad("k")
		lease := w.bytes("k")
		first.release()
		slow.want("v1")
		if w.bytes("k") != lease {
			w.Fatal("the late fill changed the next lease")
		}
		second.release()
		next.want("v2")
		w.wantHeld("k", "Vv2")
	}, everywhere},

	{"A16", "each change of a key is one script, and nothing else is sent", func(w *world) {
		a := w.instance()
		w.source.set("k", "v")
		a.sends("read fill", func() { a.want("k", "v") })
		a.sends("put", func() { a.put("k", "v2") })
		a.sends("read", func() { a.want("k", "v2") })
		a.sends("invalidate", func() { a.drop("k", "l") })
		w.source.fail("k", errors.New("no"))
		a.sends("read release", func() { a.wantError("k") })
		w.source.fail("k", nil)
		w.lay("k", []string{"SET", "strange"})
		a.sends("read reclaim fill", func() { a.want("k", "v") })
	}, everywhere},

	{"A17", "a filled value lives for its ttl, not for what its lease had left", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.LeaseTTL, p.TTL = 5*time.Second, time.Minute }))
		w.source.set("k", "v")
		a.want("k", "v")
		w.near("the value's life", w.life("k"), time.Minute)
	}, everywhere},

	{"A18", "no state passes its life on to the next", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) {
			p.AbsentTTL, p.TTL, p.LeaseTTL = 20*time.Second, policy.Forever, 5*time.Second
		}))
		a.want("k", "absent")
		w.near("the negative entry's life", w.life("k"), 20*time.Second)
		a.put("k", "v")
		if life := w.life("k"); life != policy.Forever {
			w.Fatalf("after the negative entry the value's life is %v", life)
		}
		w.do("SETRANGE", at("k"), "0", "strange")
		w.source.set("k", "v2")
		a.ClearLocal()
		load, slow := a.startLoad("k")
		w.near("after the value the lease's life", w.life("k"), 5*time.Second)
		w.source.remove("k")
		load.release()
		slow.want("v2")
		if life := w.life("k"); life != policy.Forever {
			w.Fatalf("after the lease the value's life is %v", life)
		}
		a.drop("k")
		a.want("k", "absent")
		w.near("after the value the negative entry's life", w.life("k"), 20*time.Second)
	}, everywhere},

	{"A19", "a negative entry is fenced like a value, and its life is its own", func(w *world) {
		a, b := w.instance(), w.instance()
		load, slow := a.startLoad("k")
		b.drop("k")
		load.release()
		slow.want("absent")
		w.wantHeld("k", "")
		b.want("k", "absent")
		w.wantHeld("k", "M")
		w.near("its life", w.life("k"), 30*time.Second)
		b.drop("k")
		w.wantHeld("k", "")

		load, slow = a.startLoad("k")
		b.put("k", "v")
		load.release()
		slow.want("absent")
		w.wantHeld("k", "Vv")
	}, everywhere},

	{"A20", "redis ends a dead holder's lease after lease-ttl; then another's load counts", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.LeaseTTL = 300 * time.Millisecond }))
		b := w.instance()
		w.source.set("k", "v")
		began := time.Now()
		load := w.hold("k")
		a.begin("k")
		load.wait()
		w.near("the lease's life", w.life("k"), 300*time.Millisecond)
		a.dies()
		w.until("the lease is gone", func() bool { return w.holds("k") == "" })
		w.took("the lease", time.Since(began), 300*time.Millisecond)
		b.sends("read fill", func() { b.want("k", "v") })
		w.wantHeld("k", "Vv")
	}, everywhere},

	{"A22", "a waiter looks again after 2, 4, 8 … 50 ms", func(w *world) {
		a, b := w.instance(), w.instance()
		load, slow := a.startLoad("k")
		w.know()
		b.wire.Forget()
		waiter := b.begin("k")
		time.Sleep(250 * time.Millisecond)
		var looks []time.Time
		for _, c := range b.wire.Sent() {
			if c.Is("EVALSHA") {
				looks = append(looks, c.At)
			}
		}
		load.release()
		slow.want("absent")
		waiter.want("absent")
		if len(looks) < 3 || w.virtual && len(looks) != 9 {
			w.Fatalf("%d looks", len(looks))
		}
		pause := 2 * time.Millisecond
		for n := range looks[1:] {
			gap := looks[n+1].Sub(looks[n])
			if gap < pause || w.virtual && gap > pause {
				w.Fatalf("look %d came after %v, want %v", n+1, gap, pause)
			}
			pause = min(2*pause, 50*time.Millisecond)
		}
	}, everywhere},

	{"A23", "the wait ends with lease-wait, or with the lease when that ends sooner", func(w *world) {
		a := w.instance()
		b := w.instance(with(func(p *policy.Policy) { p.LeaseWait = 300 * time.Millisecond }))
		long, slow := a.startLoad("long")
		began := time.Now()
		b.want("long", "absent")
		w.took("the wait", time.Since(began), 300*time.Millisecond)
		long.release()
		slow.want("absent")

		a = w.instance(with(func(p *policy.Policy) { p.LeaseTTL = 200 * time.Millisecond }))
		short := w.hold("short")
		began = time.Now()
		slow = a.begin("short")
		short.wait()
		b.want("short", "absent")
		w.took("the lease's end", time.Since(began), 200*time.Millisecond)
		short.release()
		slow.want("absent")
	}, everywhere},

	{"A24", "what the holder fills is the waiter's answer, and is kept in its L2", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v")
		load, slow := a.startLoad("k")
		waiter := b.begin("k")
		w.until("b waits", func() bool { return slices.Contains(b.sent(), "read") })
		w.moment()
		load.release()
		slow.want("v")
		found := waiter.want("v")
		if found.Source != cache.FromL1 || !found.Waited {
			w.Fatalf("b's answer is %+v", found)
		}
		b.sends("", func() { b.want("k", "v") })
		if loads := w.source.count("k"); loads != 1 {
			w.Fatalf("%d loads", loads)
		}
	}, everywhere},

	{"A26", "a loader that fails gives its lease back at once", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v")
		failure := errors.New("no")
		w.source.fail("k", failure)
		a.sends("read release", func() {
			if err := a.wantError("k"); err != failure {
				w.Fatalf("the caller got %v", err)
			}
		})
		w.source.fail("k", nil)
		b.canLeaseAtOnce("k")
	}, everywhere},

	{"A27", "so does a loader that names no possible ttl", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v")
		w.source.ttl("k", -time.Second)
		a.sends("read release", func() { a.wantLoaderError("k") })
		w.source.ttl("k", 0)
		b.canLeaseAtOnce("k")
	}, everywhere},

	{"A28", "so does a value that does not fit the codec", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "\xff")
		a.sends("read release", func() { a.wantLoaderError("k") })
		w.source.set("k", "v")
		b.canLeaseAtOnce("k")
	}, everywhere},

	{"A29", "so does a load that finds no place", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.Loads.MaxConcurrent, p.Loads.MaxQueued = 1, policy.NoQueue }))
		b := w.instance()
		w.source.set("k", "v")
		load, slow := a.startLoad("other")
		a.sends("read release", func() {
			var overloaded *cache.OverloadedError
			if err := a.wantError("k"); !errors.As(err, &overloaded) {
				w.Fatalf("the caller got %v", err)
			}
		})
		b.canLeaseAtOnce("k")
		load.release()
		slow.want("absent")
	}, everywhere},

	{"A30", "a read that nobody can load for leaves no lease", func(w *world) {
		a, b := w.instance(func(o *options) { o.Loader = nil }), w.instance()
		w.source.set("k", "v")
		a.sends("read", func() { a.want("k", "unpopulated") })
		b.canLeaseAtOnce("k")
	}, everywhere},

	{"A32", "a holder whose lease ran out gives nobody else's lease back", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.LeaseTTL = 50 * time.Millisecond }))
		b := w.instance()
		w.source.fail("k", errors.New("no"))
		first, slow := a.startLoad("k")
		w.source.fail("k", nil)
		w.until("a's lease is gone", func() bool { return w.holds("k") == "" })
		second, next := b.startLoad("k")
		lease := w.bytes("k")
		first.release()
		slow.want("error")
		if w.bytes("k") != lease {
			w.Fatal("a's failure changed b's lease")
		}
		second.release()
		next.want("absent")
		w.wantHeld("k", "M")
	}, everywhere},

	{"A34 A37", "a fill whose lease ran out is refused though nobody took over; L2 keeps its value for degraded-max-age", func(w *world) {
		const age = 900 * time.Millisecond
		a := w.instance(with(func(p *policy.Policy) { p.LeaseTTL, p.Local.DegradedMaxAge = 50*time.Millisecond, age }))
		w.source.set("k", "v")
		load, slow := a.startLoad("k")
		w.until("the lease is gone", func() bool { return w.holds("k") == "" })
		load.release()
		found := slow.want("v")
		w.wantHeld("k", "")
		if found.Degraded != cache.FillRefused || found.TTL != 0 {
			w.Fatalf("the answer is %+v", found)
		}
		w.near("the copy's life", found.LocalTTL, age)
		a.sends("", func() { a.want("k", "v") })
		time.Sleep(age)
		a.want("k", "v")
		if loads := w.source.count("k"); loads != 2 {
			w.Fatalf("%d loads", loads)
		}
	}, everywhere},

	{"A35", "a loader slower than its lease is asked once in degraded-max-age, not at each read", func(w *world) {
		const load, age = 40 * time.Millisecond, 200 * time.Millisecond
		a := w.instance(with(func(p *policy.Policy) { p.LeaseTTL, p.Local.DegradedMaxAge = load/2, age }))
		w.source.set("k", "v")
		w.source.inLoad(func(context.Context, string) { time.Sleep(load) })
		began := time.Now()
		for time.Since(began) < 900*time.Millisecond {
			a.want("k", "v")
			time.Sleep(5 * time.Millisecond)
		}
		most := int(time.Since(began)/(load+age)) + 1
		if loads := w.source.count("k"); loads < 2 || loads > most {
			w.Fatalf("%d loads, want 2 to %d", loads, most)
		}
	}, everywhere},

	{"A36", "a load that outlives its lease is one too many, but never overwrites the next holder's", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.LeaseTTL = 50 * time.Millisecond }))
		b := w.instance()
		w.source.set("k", "v1")
		load, slow := a.startLoad("k")
		w.source.set("k", "v2")
		b.want("k", "v2")
		w.wantHeld("k", "Vv2")
		load.release()
		slow.want("v1")
		w.wantHeld("k", "Vv2")
		if loads := w.source.count("k"); loads != 2 {
			w.Fatalf("%d loads", loads)
		}
	}, everywhere},

	{"A38", "what the source does not have is a negative entry for absent-ttl", func(w *world) {
		a, b := w.instance(with(func(p *policy.Policy) { p.AbsentTTL = 20 * time.Second })), w.instance()
		a.want("k", "absent")
		w.wantHeld("k", "M")
		w.near("its life", w.life("k"), 20*time.Second)
		b.want("k", "absent")
		if loads := w.source.count("k"); loads != 1 {
			w.Fatalf("%d loads", loads)
		}
	}, everywhere},

	{"A39", "an entry of a newer format is read around and stays as it is", func(w *world) {
		content := encoded(entry.Entry{State: entry.Value, Until: entry.Never, Body: entry.Body{Payload: "newer"}})
		content = content[:2] + "2" + content[3:]
		w.lay("k", []string{"SET", content})
		w.source.set("k", "v")
		for range 3 {
			a := w.instance()
			a.sends("read", func() { a.want("k", "v") })
		}
		if w.bytes("k") != content {
			w.Fatal("it was changed")
		}
		if loads := w.source.count("k"); loads != 3 {
			w.Fatalf("%d loads", loads)
		}
	}, everywhere},

	{"A40", "a refresh has its token in the value's key; a write destroys it and the refresh fills nothing", func(w *world) {
		const ttl = 20 * time.Second
		a := w.instance(with(func(p *policy.Policy) { p.TTL, p.RefreshWindow = ttl, ttl-50*time.Millisecond }))
		b := w.instance()
		for key, after := range map[string]string{"put": "Vv2", "invalidated": ""} {
			w.source.set(key, "v1")
			a.want(key, "v1")
			refused := a.Stats().Fills["refused"]
			load := w.hold(key)
			w.until("a refresh loads", func() bool { a.get(key); return load.isIn() })
			w.wantHeld(key, "Vv1")
			if w.entry(key).Token == (entry.Token{}) {
				w.Fatal("the value has no token")
			}
			w.source.set(key, "v2")
			if key == "put" {
				b.put(key, "v2")
			} else {
				b.drop(key)
			}
			load.release()
			w.until("the refresh is refused", func() bool { return a.Stats().Fills["refused"] > refused })
			w.wantHeld(key, after)
			a.heard()
			a.want(key, "v2")
		}
	}, everywhere},

	{"A41", "lives are spread around ttl, within ttl-jitter", func(w *world) {
		const ttl = 10 * time.Minute
		a := w.instance(with(func(p *policy.Policy) { p.TTL, p.TTLJitter = ttl, 10 }))
		keys := make([]string, 200)
		for n := range keys {
			keys[n] = fmt.Sprint("k", n)
			w.source.set(keys[n], "v")
		}
		a.GetAll(ctx, keys)
		least, most := policy.Forever, time.Duration(0)
		for _, key := range keys {
			life := w.life(key)
			least, most = min(least, life), max(most, life)
		}
		if least < ttl*9/10-20*time.Second || most > ttl*11/10 || most-least < ttl/10 {
			w.Fatalf("lives of %v to %v", least, most)
		}
	}, everywhere},

	{"A42", "a ttl of forever is no expiry in redis", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.TTL, p.TTLJitter = policy.Forever, 10 }))
		w.source.set("k", "v")
		if found := a.get("k"); found.TTL != policy.Forever {
			w.Fatalf("the answer is %+v", found)
		}
		if life := w.life("k"); life != policy.Forever {
			w.Fatalf("its life is %v", life)
		}
	}, everywhere},

	{"A43", "a loader names the life of each value", func(w *world) {
		a := w.instance()
		for key, ttl := range map[string]time.Duration{"short": 20 * time.Second, "long": time.Hour, "endless": policy.Forever} {
			w.source.set(key, "v")
			w.source.ttl(key, ttl)
			a.want(key, "v")
			w.near(key, w.life(key), ttl)
		}
	}, everywhere},

	{"A44", "scripts are sent by hash, and by source to a server that has lost them; no caller notices", func(w *world) {
		a := w.instance()
		w.source.set("k", "v")
		w.source.set("bad", "\xff")
		for verbs, do := range map[string]func(){
			"read fill":         func() { a.want("k", "v") },
			"put":               func() { a.put("k", "v") },
			"invalidate":        func() { a.drop("k", "l") },
			"read release":      func() { a.wantLoaderError("bad") },
			"read reclaim fill": func() { w.lay("k2", []string{"SET", "strange"}); a.want("k2", "absent") },
		} {
			w.do("SCRIPT", "FLUSH")
			a.wire.Forget()
			do()
			var want, got []string
			for verb := range strings.FieldsSeq(verbs) {
				want = append(want, "EVALSHA "+verb, "EVAL "+verb)
			}
			names := commandNames(a.wire.Sent())
			for n, verb := range a.sent() {
				got = append(got, names[n]+" "+verb)
			}
			if !slices.Equal(got, want) {
				w.Fatalf("sent %q, want %q", got, want)
			}
			a.drop("k")
		}
	}, everywhere},

	{"A45", "an invalidation frees the lease too: the next reader loads at once", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v1")
		load, slow := a.startLoad("k")
		w.source.set("k", "v2")
		a.drop("k")
		b.sends("read fill", func() { b.want("k", "v2") })
		if slow.isDone() {
			w.Fatal("a's load has ended: nothing was shown")
		}
		load.release()
		slow.want("v1")
	}, everywhere},

	{"A46", "a dead holder delays others until its lease ends, when a waiter takes over and fills, or for lease-wait", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.LeaseTTL = 400 * time.Millisecond }))
		b := w.instance()
		c := w.instance(with(func(p *policy.Policy) { p.LeaseWait = 100 * time.Millisecond }))
		w.source.set("k", "v")
		began := time.Now()
		load := w.hold("k")
		a.begin("k")
		load.wait()
		a.dies()
		patient, hasty := b.begin("k"), c.begin("k")
		if found := hasty.want("v"); found.StoredL1 || found.Degraded != cache.LeaseWait {
			w.Fatalf("after lease-wait: %+v", found)
		}
		if found := patient.want("v"); !found.StoredL1 || !found.Waited {
			w.Fatalf("after the lease: %+v", found)
		}
		w.took("taking over", time.Since(began), 400*time.Millisecond)
		w.wantHeld("k", "Vv")
	}, everywhere},

	{"A47", "read, invalidate, store: the store fails in both tiers", func(w *world) {
		a := w.instance()
		w.source.set("k", "v1")
		load, slow := a.startLoad("k")
		w.source.set("k", "v2")
		a.drop("k")
		load.release()
		if found := slow.want("v1"); found.StoredL1 || found.LocalTTL != 0 {
			w.Fatalf("the old row was kept: %+v", found)
		}
		w.wantHeld("k", "")
		if found, err := a.Peek(ctx, "k"); err != nil || found.Kind != cache.Unpopulated {
			w.Fatalf("a holds %+v, %v", found, err)
		}
	}, everywhere},
}

// startLoad begins a read whose loader has read its row and stands in the hold.
func (i *instance) startLoad(key string) (*hold, *reading) {
	i.w.Helper()
	load := i.w.hold(key)
	r := i.begin(key)
	load.wait()
	return load, r
}

// heldUp runs do, which sends a script, and lets that arrive after meanwhile only.
func (i *instance) heldUp(verb string, do, meanwhile func()) {
	i.w.Helper()
	i.connect()
	i.wire.Hold(wire.Commands)
	do()
	i.w.until(verb+" is on its way", func() bool { return slices.Contains(i.sent(), verb) })
	meanwhile()
	i.wire.Release()
}

// heard waits until the instance has taken in every message sent so far: a copy
// of its own goes with a message that comes after them.
func (i *instance) heard() {
	i.w.Helper()
	i.get("heard")
	i.w.publish("heard")
	i.w.until("the message arrives", func() bool { return i.get("heard").Source != cache.FromL2 })
}

// dies ends an instance for the others, as kill -9 would.
func (i *instance) dies() {
	i.wire.Down(errors.New("dead"))
	i.wire.Cut(wire.All)
}

// write invalidates or puts, as it comes.
func (i *instance) write(key, value string) error {
	if rand.N(2) == 0 {
		return i.Put(ctx, key, []byte(value), cache.PutOptions{})
	}
	return i.Invalidate(ctx, key)
}

// tokens are those that an instance sent, in order.
func (i *instance) tokens() []entry.Token {
	place := map[string]int{"read": 5, "reclaim": 6}
	var tokens []entry.Token
	for _, c := range i.wire.Sent() {
		if !c.Is("EVALSHA") {
			continue
		}
		if at := place[verbOf(c.Words[1])]; at > 0 && c.Words[at] != "" {
			tokens = append(tokens, entry.Token([]byte(c.Words[at])))
		}
	}
	return tokens
}

// wantError is the error of a read that must fail.
func (i *instance) wantError(key string) error {
	i.w.Helper()
	found, err := i.Get(ctx, key)
	if err == nil {
		i.w.Fatalf("get %q: %+v, want an error", key, found)
	}
	return err
}

func (i *instance) wantLoaderError(key string) {
	i.w.Helper()
	var failure *loader.Error
	if err := i.wantError(key); !errors.As(err, &failure) {
		i.w.Fatalf("get %q: %v, want a loader's error", key, err)
	}
}

// canLeaseAtOnce: nothing is under the key, and a read loads and fills it.
func (i *instance) canLeaseAtOnce(key string) {
	i.w.Helper()
	i.w.wantHeld(key, "")
	i.sends("read fill", func() { i.want(key, "v") })
}

// entry is what a key holds.
func (w *world) entry(key string) entry.Entry {
	w.Helper()
	e, err := entry.Decode(w.bytes(key))
	if err != nil {
		w.Fatal(err)
	}
	return e
}

func encoded(e entry.Entry) string {
	content, err := entry.Encode(e)
	if err != nil {
		panic(err)
	}
	return content
}

// lay puts content under a key as a stranger would: a command and its argument, nil
// for none.
func (w *world) lay(key string, command []string) {
	w.Helper()
	w.do("DEL", at(key))
	if command != nil {
		w.do(command[0], at(key), command[1])
	}
}

// content is what a key holds, of whatever type.
func (w *world) content(key string) string {
	w.Helper()
	m := w.do("TYPE", at(key))
	kind, err := m.ToString()
	if err != nil {
		w.Fatal(err)
	}
	if kind != "list" {
		return kind + " " + w.bytes(key)
	}
	m = w.do("LRANGE", at(key), "0", "-1")
	items, err := m.AsStrSlice()
	if err != nil {
		w.Fatal(err)
	}
	return kind + " " + strings.Join(items, ",")
}

// took checks how long something took: exact in virtual time.
func (w *world) took(what string, got, want time.Duration) {
	w.Helper()
	if slack := 5 * time.Millisecond; got < want-slack || w.virtual && got > want+slack || got > want+5*time.Second {
		w.Fatalf("%s took %v, want %v", what, got, want)
	}
}

// every runs do again and again, about each pause, until over is closed.
func every(over <-chan struct{}, pause time.Duration, do func()) {
	for !closed(over) {
		do()
		time.Sleep(pause/2 + rand.N(pause))
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// commandNames are the names of scripts' commands.
func commandNames(sent []wire.Command) []string {
	var names []string
	for _, c := range sent {
		if c.Is("EVALSHA") || c.Is("EVAL") {
			names = append(names, strings.ToUpper(c.Words[0]))
		}
	}
	return names
}

package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/runtime/policy"
)

// Leases alone, and stale copies (K). K32, K39 and K40 are among the leases; the
// promises about types (J) that type cache keeps by itself are here.
var leaseCache = []claim{
	{"K1 K2", "a lease is the key's own entry, with a token nobody else has and lease-ttl to live, and the value takes its place", func(w *world) {
		a, b := w.instance(lease(700*time.Millisecond)), w.instance(lease(700*time.Millisecond))
		tokens := map[entry.Token]bool{}
		for _, key := range []string{"k", "m"} {
			w.source.set(key, "v")
			i := map[string]*instance{"k": a, "m": b}[key]
			load := w.hold(key)
			slow := i.begin(key)
			load.wait()
			w.near("the life of the lease", w.life(key), 700*time.Millisecond)
			e, err := entry.Decode(w.bytes(key))
			if err != nil || e.State != entry.Lease || tokens[e.Token] || e.Token == (entry.Token{}) {
				w.Fatalf("redis holds %+v, %v", e, err)
			}
			tokens[e.Token] = true
			w.wantKeys(at(key))
			load.release()
			slow.want("v")
			w.wantKeys(at(key))
			w.do("DEL", at(key))
		}
	}, everywhere},

	{"K3", "who waits for another's load looks again at the pace of lease-poll, and returns its value once it is there", func(w *world) {
		const pace = 40 * time.Millisecond
		a, b := w.instance(), w.instance(with(func(p *policy.Policy) { p.LeasePoll = policy.Poll{Min: pace, Max: pace} }))
		w.source.set("k", "v")
		load := w.hold("k")
		slow := a.begin("k")
		load.wait()
		waits := b.begin("k")
		w.until("five looks", func() bool { return strings.Count(strings.Join(b.sent(), " "), "read") >= 5 })
		load.release()
		slow.want("v")
		if found := waits.want("v"); !found.Waited || found.Source != cache.FromL1 {
			w.Errorf("the answer is %+v", found)
		}
		for n, gap := range b.gaps("read") {
			if gap < pace || w.virtual && gap > pace+5*time.Millisecond {
				w.Errorf("look %d came after %v", n, gap)
			}
		}
		if n := w.source.count("k"); n != 1 {
			w.Errorf("%d loads", n)
		}
	}, everywhere},

	{"K4 K38", "lease-wait bounds what another's hung load costs; the reader then loads what is current, and stores nothing", func(w *world) {
		const wait = 100 * time.Millisecond
		a, b := w.instance(), w.instance(with(func(p *policy.Policy) { p.LeaseWait = wait }))
		w.source.set("k", "v1")
		hung := w.hold("k")
		a.begin("k")
		hung.wait()
		w.source.set("k", "v2")
		b.wire.Forget()
		began := time.Now()
		found := b.get("k")
		if took := time.Since(began); took < wait || w.virtual && took > wait+5*time.Millisecond {
			w.Errorf("it took %v", took)
		}
		if found.Value != "v2" || found.Degraded != cache.LeaseWait {
			w.Errorf("the answer is %+v", found)
		}
		if sent := b.sent(); slices.ContainsFunc(sent, func(verb string) bool { return verb != "read" }) {
			w.Errorf("sent %q", sent)
		}
		w.wantHeld("k", "L")
	}, everywhere},

	{"K5", "a lease that outlasts the load keeps it single; one that does not lets a second begin", func(w *world) {
		long, short := lease(5*time.Second), lease(100*time.Millisecond)
		a, b, c, d := w.instance(long), w.instance(long), w.instance(short), w.instance(short)
		w.source.set("once", "v")
		w.source.set("twice", "v")
		once, twice := w.hold("once"), w.hold("twice")
		a.begin("once")
		c.begin("twice")
		once.wait()
		twice.wait()
		waits := b.begin("once")
		d.begin("twice").want("v")
		once.release()
		waits.want("v")
		if one, two := w.source.count("once"), w.source.count("twice"); one != 1 || two != 2 {
			w.Errorf("%d and %d loads", one, two)
		}
	}, everywhere},

	{"K6 K13", "an expired value is shown to nobody, stale-ttl or not: only an invalidation leaves a stale copy", func(w *world) {
		a, b := w.instance(showing), w.instance(showing)
		w.source.set("k", "v1")
		w.source.ttl("k", 150*time.Millisecond)
		a.want("k", "v1")
		w.until("it has expired", func() bool { return w.bytes("k") == "" })
		w.source.set("k", "v2")
		load := w.hold("k")
		slow := a.begin("k")
		load.wait()
		w.wantHeld("k", "L")
		waits := b.begin("k")
		w.moment()
		if waits.isDone() {
			w.Errorf("answered %s while the load was under way", text(waits.found))
		}
		load.release()
		slow.want("v2")
		waits.want("v2")
	}, everywhere},

	{"K7", "with stale-ttl an invalidation leaves the value as a stale copy, for stale-ttl or its own rest", func(w *world) {
		a := w.instance(showing)
		for key, ttl := range map[string]time.Duration{"long": time.Minute, "short": 500 * time.Millisecond} {
			w.source.set(key, "v1")
			w.source.ttl(key, ttl)
			a.want(key, "v1")
			a.drop(key)
			w.wantHeld(key, "Sv1")
			w.near("the life of the stale copy", w.life(key), min(ttl, staleTTL))
		}
	}, everywhere},

	{"K8 K9 K33", "after an invalidation the holder loads, and who would wait for it is shown the old value, marked", func(w *world) {
		a, b, c := w.instance(showing), w.instance(showing), w.instance(showing)
		w.source.set("k", "v1")
		a.want("k", "v1")
		a.drop("k")
		w.source.set("k", "v2")
		load := w.hold("k")
		holder := b.begin("k")
		load.wait()
		found := c.get("k")
		if found.Value != "v1" || found.Source != cache.FromStale {
			w.Errorf("the other reader got %+v", found)
		}
		if holder.isDone() {
			w.Errorf("the holder got %s", text(holder.found))
		}
		load.release()
		if found := holder.want("v2"); found.Source != cache.FromLoader {
			w.Errorf("the holder got %+v", found)
		}
		c.want("k", "v2")
	}, everywhere},

	{"K10", "the holder's fill ends the stale copy: when the new value is gone too, nothing old is shown", func(w *world) {
		a, b, c := w.instance(showing), w.instance(showing), w.instance(showing)
		w.source.set("k", "v1")
		a.want("k", "v1")
		a.drop("k")
		w.source.set("k", "v2")
		w.source.ttl("k", 100*time.Millisecond)
		b.want("k", "v2")
		w.until("the new value has expired", func() bool { return w.bytes("k") == "" })
		w.source.set("k", "v3")
		load := w.hold("k")
		holder := b.begin("k")
		load.wait()
		w.wantHeld("k", "L")
		waits := c.begin("k")
		w.moment()
		load.release()
		holder.want("v3")
		waits.want("v3")
	}, everywhere},

	{"K11", "what is shown as stale is kept in neither tier", func(w *world) {
		a, b, c := w.instance(showing), w.instance(showing), w.instance(showing)
		w.source.set("k", "v1")
		a.want("k", "v1")
		a.drop("k")
		w.hold("k")
		b.begin("k")
		w.until("the lease is held", func() bool { return w.holds("k") == "Lv1" })
		before := w.bytes("k")
		for range 3 {
			c.sends("read", func() {
				if found := c.get("k"); found.Source != cache.FromStale || found.TTL != 0 || found.LocalTTL != 0 {
					w.Errorf("got %+v", found)
				}
			})
		}
		if n := c.Stats().L2Entries; n != 0 {
			w.Errorf("%d copies in L2", n)
		}
		if w.bytes("k") != before {
			w.Errorf("redis holds %q", w.holds("k"))
		}
	}, everywhere},

	{"K12", "with stale copies, too, nothing older than a write that returned is a value in Redis, or shown unmarked", func(w *world) {
		w.race(showing)
	}, everywhere},

	{"K14", "without stale-ttl an invalidation leaves nothing, and its readers wait", func(w *world) {
		a, b, c := w.instance(), w.instance(), w.instance()
		w.source.set("k", "v1")
		a.want("k", "v1")
		a.drop("k")
		w.wantHeld("k", "")
		w.source.set("k", "v2")
		load := w.hold("k")
		holder := b.begin("k")
		load.wait()
		waits := c.begin("k")
		w.moment()
		if waits.isDone() {
			w.Errorf("answered %s", text(waits.found))
		}
		load.release()
		holder.want("v2")
		waits.want("v2")
	}, everywhere},

	{"K15 K16", "a second invalidation keeps the stale copy and its end, a refused fill leaves it, a put ends it", func(w *world) {
		a, b, c := w.instance(showing), w.instance(showing), w.instance(showing)
		w.source.set("k", "v1")
		a.want("k", "v1")
		a.drop("k")
		first := w.staleUntil("k")
		w.source.set("k", "v2")
		w.moment()
		b.drop("k")
		a.hears(1)
		w.wantHeld("k", "Sv1")
		load := w.hold("k")
		late := a.begin("k")
		load.wait()
		w.source.set("k", "v3")
		b.drop("k")
		a.hears(2)
		load.release()
		if found := late.want("v2"); found.StoredL1 {
			w.Errorf("the fill went through: %+v", found)
		}
		w.wantHeld("k", "Sv1")
		if got := w.staleUntil("k"); got != first {
			w.Errorf("the copy ends at %d, was %d", got, first)
		}
		w.hold("k")
		a.begin("k")
		w.until("the lease is held", func() bool { return w.holds("k") == "Lv1" })
		if found := c.get("k"); found.Source != cache.FromStale || found.Value != "v1" {
			w.Errorf("shown is %+v", found)
		}
		b.put("k", "put")
		w.wantHeld("k", "Vput")
		if got := w.staleUntil("k"); got != 0 {
			w.Errorf("after a put the copy ends at %d", got)
		}
	}, everywhere},

	{"K17", "read-failure says whether a read without Redis fails, or loads; what it loads is nowhere when Redis is back", func(w *world) {
		strict := w.instance(with(func(p *policy.Policy) { p.ReadFailure = policy.Error }))
		lenient := w.instance(with(func(p *policy.Policy) { p.ReadFailure = policy.Degrade }))
		w.source.set("k", "v1")
		strict.cut()
		lenient.cut()
		var unread *cache.ReadError
		if _, err := strict.Get(ctx, "k"); !errors.As(err, &unread) {
			w.Errorf("the strict one says %v", err)
		}
		if found := lenient.get("k"); found.Value != "v1" || found.Degraded != cache.RedisDown {
			w.Errorf("the lenient one got %+v", found)
		}
		lenient.mend()
		w.source.set("k", "v2")
		lenient.dropsAgain("k")
		w.moment()
		w.wantHeld("k", "")
		lenient.want("k", "v2")
	}, everywhere},

	{"J36 J37", "without a source and without Redis a read is unknown: an error, or absent where unknown-read says so", func(w *world) {
		var unread *cache.ReadError
		for word, want := range map[policy.Unknown]string{policy.ErrorUnknown: "unknown", policy.AbsentUnknown: "absent"} {
			i := w.instance(with(func(p *policy.Policy) { p.UnknownRead = word }), func(o *options) { o.Loader = nil })
			i.want("k", "unpopulated")
			i.cut()
			found, err := i.Get(ctx, "m")
			if text(found) != want || errors.As(err, &unread) != (want == "unknown") {
				w.Errorf("%s: %+v, %v", word, found, err)
			}
		}
		a := w.instance()
		w.source.set("k", "v")
		a.want("k", "v")
		a.want("m", "absent")
	}, everywhere},

	{"K18", "with invalidate-failure: error an invalidation that Redis did not take is the caller's error, whatever reads do", func(w *world) {
		for _, reads := range []policy.Failure{policy.Degrade, policy.Error} {
			a := w.instance(with(func(p *policy.Policy) { p.InvalidateFailure, p.ReadFailure = policy.Error, reads }))
			a.cut()
			var failed *cache.WriteError
			if err := a.Invalidate(ctx, "k"); !errors.As(err, &failed) {
				w.Errorf("read-failure %s: %v", reads, err)
			}
			if n := a.Stats().Pending; n != 0 {
				w.Errorf("%d are tried again", n)
			}
		}
	}, everywhere},

	{"K19", "an answer says how long L1 still holds it: its rest, the ttl of an own fill, and nothing where L1 has no part", func(w *world) {
		short := with(func(p *policy.Policy) { p.LeaseWait, p.StaleTTL = 20*time.Millisecond, time.Minute })
		a, b, c := w.instance(short), w.instance(short), w.instance(short)
		w.source.set("k", "v")
		w.source.ttl("k", 20*time.Second)
		w.near("after an own fill", a.get("k").TTL, 20*time.Second)
		w.moment()
		w.near("from L1", b.get("k").TTL, 20*time.Second-50*time.Millisecond)
		w.near("from L2", a.get("k").TTL, 20*time.Second-50*time.Millisecond)

		nothing := map[string]cache.Lookup{}
		w.source.set("refused", "v")
		refused := w.hold("refused")
		slow := a.begin("refused")
		refused.wait()
		w.do("DEL", at("refused"))
		refused.release()
		nothing["a refused fill"] = slow.want("v")
		nothing["its copy"] = a.get("refused")
		w.source.set("waited", "v")
		w.hold("waited")
		b.begin("waited")
		w.until("the lease is held", func() bool { return w.holds("waited") == "L" })
		nothing["a wait that was over"] = a.get("waited")
		b.drop("k")
		a.hears(1)
		w.hold("k")
		a.begin("k")
		w.until("the lease is held", func() bool { return w.holds("k") == "Lv" })
		nothing["a stale copy"] = c.get("k")
		c.cut()
		w.source.set("away", "v")
		nothing["a read without redis"] = c.get("away")
		for what, found := range nothing {
			if found.TTL != 0 || found.Value != "v" {
				w.Errorf("%s: %+v", what, found)
			}
		}
	}, everywhere},

	{"K20 K35", "a tier in front that keeps an answer for its TTL is as fresh as L1; one that keeps every answer keeps what an invalidation kept out", func(w *world) {
		a, b := w.instance(), w.instance()
		heeds := front{behind: a, kept: map[string]cache.Lookup{}, keeps: func(l cache.Lookup) bool { return l.TTL > 0 }}
		greedy := front{behind: a, kept: map[string]cache.Lookup{}, keeps: func(cache.Lookup) bool { return true }}
		w.source.set("k", "v1")
		load := w.hold("k")
		one := a.beginWith(func(context.Context) (cache.Lookup, error) { return heeds.get("k") })
		load.wait()
		two := a.beginWith(func(context.Context) (cache.Lookup, error) { return greedy.get("k") })
		w.until("both wait", func() bool { return a.Stats().Waiters == 2 })
		w.source.set("k", "v2")
		b.drop("k")
		a.hears(1)
		load.release()
		one.want("v1")
		two.want("v1")
		for what, f := range map[string]front{"v2": heeds, "v1": greedy} {
			if found, err := f.get("k"); err != nil || found.Value != what {
				w.Errorf("a tier in front has %+v, %v, want %s", found, err, what)
			}
		}
		a.sends("", func() {
			if found, err := heeds.get("k"); err != nil || found.Value != "v2" || len(heeds.kept) != 1 {
				w.Errorf("what L1 holds is not kept in front: %+v, %v", found, err)
			}
		})
	}, everywhere},

	{"K21", "a user with EVAL, EVALSHA, the commands inside the scripts and the channels is enough", func(w *world) {
		words := "ACL SETUSER least on nopass resetkeys ~cocache:* resetchannels &cocache:* -@all" +
			" +hello +auth +ping +client|setname +eval +evalsha +subscribe +unsubscribe" +
			" +time +get +set +setrange +getrange +strlen +del +pexpire +publish"
		w.do(strings.Fields(words)...)
		least := func(o *options) { o.username = "least" }
		a, b := w.instance(least, showing), w.instance(least, showing)
		w.source.set("k", "v1")
		a.want("k", "v1")
		b.want("k", "v1")
		w.source.set("k", "v2")
		a.drop("k")
		b.follows("k", "v2", 0)
		a.put("k", "put")
		b.follows("k", "put", 0)
		w.do("SET", at("strange"), "bytes")
		w.source.set("strange", "v")
		a.want("strange", "v")
		w.source.fail("fails", errors.New("no"))
		a.begin("fails").want("error")
		w.wantHeld("fails", "")
	}, realRedis},

	{"K22", "scripts go by their hash, and by their source only when the server has said that it does not know them", func(w *world) {
		a := w.instance()
		w.source.set("k", "v")
		w.do("SCRIPT", "FLUSH")
		a.wire.Forget()
		a.want("k", "v")
		if got := a.names(); got != "EVALSHA EVAL EVALSHA EVAL" {
			w.Errorf("sent %s", got)
		}
		a.drop("k")
		a.wire.Forget()
		a.want("k", "v")
		a.drop("k")
		if got := a.names(); got != "EVALSHA EVALSHA EVALSHA" {
			w.Errorf("then %s", got)
		}
	}, everywhere},

	{"K23", "an entry is one key, so that no script of a reader or a put names two", func(w *world) {
		a := w.instance(showing)
		w.source.set("k", "v")
		w.source.set("strange", "v")
		w.source.fail("fails", errors.New("no"))
		w.do("SET", at("strange"), "bytes")
		w.know()
		a.wire.Forget()
		a.want("k", "v")
		a.drop("k")
		a.want("strange", "v")
		a.begin("fails").want("error")
		a.put("k", "put")
		seen := map[string]bool{}
		for _, c := range a.wire.Sent() {
			if c.Is("EVALSHA") {
				seen[verbOf(c.Words[1])] = true
				if keys := c.Words[2]; keys != "1" {
					w.Errorf("%s names %s keys", verbOf(c.Words[1]), keys)
				}
			}
		}
		if len(seen) != len(scripts) {
			w.Errorf("only %v were sent", seen)
		}
		w.wantKeys(at("k"), at("strange"))
	}, everywhere},

	{"K24 K25 K27", "every key is possible, the empty one and those with braces and zero bytes too, and each is its own", func(w *world) {
		a, b := w.instance(), w.instance()
		keys := []string{"", "}", "}x", "{", "{}", "{}x", "{x}1", "{x}2", "a}b{c", "\x00", "\xff\r\n", "x"}
		for _, key := range keys {
			w.source.set(key, fmt.Sprintf("value of %q", key))
		}
		for _, key := range keys {
			a.want(key, fmt.Sprintf("value of %q", key))
			w.wantHeld(key, fmt.Sprintf("Vvalue of %q", key))
		}
		for _, key := range keys {
			b.want(key, fmt.Sprintf("value of %q", key))
			w.source.set(key, "new")
			b.drop(key)
			w.wantHeld(key, "")
			a.follows(key, "new", 0)
			a.put(key, "put")
			w.wantHeld(key, "Vput")
		}
		size := w.do("DBSIZE")
		if n, err := size.AsInt64(); err != nil || n != int64(len(keys)) {
			w.Errorf("%d keys in redis, %v", n, err)
		}
	}, everywhere},

	{"K28", "a value stands in Redis byte for byte, behind a header of fixed size", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.Codec = policy.JSON }))
		const value = `{ "id": 9007199254740993, "name":"<Ada>" ,"n":1.10}`
		w.source.set("loaded", value)
		a.want("loaded", value)
		a.put("put", value)
		for _, key := range []string{"loaded", "put"} {
			if content := w.bytes(key); len(content) != entry.HeaderSize+len(value) || !strings.HasSuffix(content, value) {
				w.Errorf("redis holds %q under %s", content, key)
			}
		}
	}, everywhere},

	{"J13", "every write and every fill has a write id of its own, equal bytes or not", func(w *world) {
		a := w.instance()
		w.source.set("k", "same")
		seen := map[entry.Token]bool{{}: true}
		for _, write := range []func(){
			func() { a.want("k", "same") }, func() { a.put("k", "same") }, func() { a.put("k", "same") },
			func() { a.drop("k"); a.want("k", "same") },
		} {
			write()
			e, err := entry.Decode(w.bytes("k"))
			if err != nil || seen[e.WriteID] {
				w.Fatalf("redis holds %+v, %v", e, err)
			}
			seen[e.WriteID] = true
		}
	}, everywhere},

	{"K29", "what the source does not have is asked for once within absent-ttl, by all instances", func(w *world) {
		short := with(func(p *policy.Policy) { p.AbsentTTL = 200 * time.Millisecond })
		a, b := w.instance(short), w.instance(short)
		began := time.Now()
		for range 3 {
			a.want("k", "absent")
			b.want("k", "absent")
		}
		if n := w.source.count("k"); n != 1 && time.Since(began) < 200*time.Millisecond {
			w.Errorf("%d loads", n)
		}
		w.source.set("k", "v")
		a.follows("k", "v", 200*time.Millisecond)
	}, everywhere},

	{"K30", "the readers of a key in one process send and load once", func(w *world) {
		a := w.instance()
		w.source.set("k", "v")
		a.sends("read fill", func() {
			load := w.hold("k")
			readers := begin(20, a)
			w.until("all wait", func() bool { return a.Stats().Waiters == 20 })
			load.wait()
			load.release()
			for _, r := range readers {
				r.want("v")
			}
		})
		if n := w.source.count("k"); n != 1 {
			w.Errorf("%d loads", n)
		}
	}, everywhere},

	{"K31", "readers on several instances load once", func(w *world) {
		a, b, c := w.instance(), w.instance(), w.instance()
		w.source.set("k", "v")
		load := w.hold("k")
		readers := begin(5, a, b, c)
		load.wait()
		w.until("the others have asked", func() bool { return len(a.sent()) > 0 && len(b.sent()) > 0 && len(c.sent()) > 0 })
		w.moment()
		load.release()
		for _, r := range readers {
			r.want("v")
		}
		if n := w.source.count("k"); n != 1 {
			w.Errorf("%d loads", n)
		}
	}, everywhere},

	{"K37", "a read with a loader of its own, and a put, may name a ttl of their own", func(w *world) {
		a := w.instance()
		own := loader.Func(func(context.Context, loader.Request) (loader.Result, error) {
			return loader.Result{Value: []byte("own"), TTL: 5 * time.Second}, nil
		})
		if found, err := a.GetWith(ctx, "k", own); err != nil || found.Value != "own" {
			w.Fatalf("got %+v, %v", found, err)
		}
		w.near("the life of what was loaded", w.life("k"), 5*time.Second)
		if err := a.Put(ctx, "m", []byte("put"), cache.PutOptions{TTL: 7 * time.Second}); err != nil {
			w.Fatal(err)
		}
		w.near("the life of what was put", w.life("m"), 7*time.Second)
	}, everywhere},
}

const staleTTL = 2 * time.Second

// showing shows stale values for staleTTL.
func showing(o *options) { o.Policy.StaleTTL = staleTTL }

func lease(ttl time.Duration) func(*options) {
	return with(func(p *policy.Policy) { p.LeaseTTL = ttl })
}

// staleUntil is when the stale copy under a key ends, by the server's clock.
func (w *world) staleUntil(key string) int64 {
	w.Helper()
	e, err := entry.Decode(w.bytes(key))
	if err != nil {
		w.Fatal(err)
	}
	return e.StaleUntil
}

// wantKeys checks which keys Redis holds, all of them.
func (w *world) wantKeys(want ...string) {
	w.Helper()
	m := w.do("KEYS", "*")
	got, err := m.AsStrSlice()
	if err != nil {
		w.Fatal(err)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.Fatalf("redis has the keys %q, want %q", got, want)
	}
}

// names are the commands sent for scripts, as they are called.
func (i *instance) names() string {
	var names []string
	for _, c := range i.wire.Sent() {
		if c.Is("EVALSHA") || c.Is("EVAL") {
			names = append(names, c.Words[0])
		}
	}
	return strings.Join(names, " ")
}

// gaps are the times between the scripts of a verb that were sent.
func (i *instance) gaps(verb string) (gaps []time.Duration) {
	var last time.Time
	for _, c := range i.wire.Sent() {
		if !c.Is("EVALSHA") || verbOf(c.Words[1]) != verb {
			continue
		}
		if !last.IsZero() {
			gaps = append(gaps, c.At.Sub(last))
		}
		last = c.At
	}
	return gaps
}

// hears waits for the nth message of others.
func (i *instance) hears(n uint64) {
	i.w.Helper()
	i.w.until("the message is there", func() bool { return i.Stats().Received == n })
}

// dropsAgain invalidates as soon as Redis takes it.
func (i *instance) dropsAgain(key string) {
	i.w.Helper()
	i.w.until("redis takes writes again", func() bool {
		return i.InvalidateAll(ctx, []string{key})[0] == cache.Invalidation{}
	})
}

// begin starts n reads of k on each instance.
func begin(n int, on ...*instance) (readers []*reading) {
	for _, i := range on {
		for range n {
			readers = append(readers, i.begin("k"))
		}
	}
	return readers
}

// front is a tier before an instance.
type front struct {
	behind *instance
	kept   map[string]cache.Lookup
	keeps  func(cache.Lookup) bool
}

func (f front) get(key string) (cache.Lookup, error) {
	if found, ok := f.kept[key]; ok {
		return found, nil
	}
	found, err := f.behind.Get(ctx, key)
	if err == nil && f.keeps(found) {
		f.kept[key] = found
	}
	return found, err
}

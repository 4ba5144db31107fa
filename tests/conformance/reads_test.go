package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/policy"
	"github.com/cocache/cocache/tests/wire"
)

// The read path (D).
var reads = []claim{
	{"D1", "a hit in L2 sends nothing", func(w *world) {
		a := w.instance()
		w.source.set("k", "v")
		a.want("k", "v")
		a.sends("", func() {
			for range 1000 {
				if found := a.get("k"); found.Source != cache.FromL2 {
					w.Fatalf("got %+v", found)
				}
			}
		})
	}, everywhere},

	{"D2", "a copy of what L1 holds lives as long as that, and local.max-age at most", func(w *world) {
		short := with(func(p *policy.Policy) { p.TTL = 300 * time.Millisecond })
		a, b := w.instance(short), w.instance(short)
		w.source.set("k", "v1")
		w.near("the loader's copy", a.get("k").LocalTTL, 300*time.Millisecond)
		copied := b.get("k")
		if copied.Source != cache.FromL1 || copied.LocalTTL > copied.TTL || copied.TTL > 300*time.Millisecond {
			w.Errorf("b got %+v", copied)
		}
		w.source.set("k", "v2")
		w.until("L1 has let go", func() bool { return w.life("k") == 0 })
		w.moment()
		a.want("k", "v2")
		b.want("k", "v2")

		aged := w.instance(with(func(p *policy.Policy) { p.Local.MaxAge = 200 * time.Millisecond }))
		w.source.set("old", "v")
		w.near("the copy", aged.get("old").LocalTTL, 200*time.Millisecond)
		aged.untilFrom(cache.FromL1, "old")
	}, everywhere},

	{"D3", "a copy that bypassed L1 lives as long as the value, and local.degraded-max-age at most", func(w *world) {
		w.source.set("k", "v")
		for _, c := range []struct{ ttl, most, want time.Duration }{
			{time.Hour, 200 * time.Millisecond, 200 * time.Millisecond},
			{200 * time.Millisecond, time.Hour, 200 * time.Millisecond},
		} {
			w.do("SET", at("k"), laterFormat)
			a := w.instance(with(func(p *policy.Policy) { p.TTL, p.Local.DegradedMaxAge = c.ttl, c.most }))
			before := w.source.count("k")
			w.near("the copy", a.get("k").LocalTTL, c.want)
			a.untilFrom(cache.FromLoader, "k")
			w.wantLoads("k", before+2)
		}
	}, everywhere},

	{"D4", "local.max-age must end", func(w *world) {
		_, err := w.open(with(func(p *policy.Policy) { p.Local.MaxAge = policy.Forever }))
		if err == nil || !strings.Contains(err.Error(), "local.max-age: must end") {
			w.Errorf("got %v", err)
		}
	}, everywhere},

	{"D5", "local.max-age is 5 minutes unless said otherwise", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.TTL = policy.Forever }), func(o *options) { o.Heartbeat = 50 * time.Millisecond })
		w.source.set("k", "v")
		var found cache.Lookup
		w.until("messages are relied on", func() bool {
			a.drop("k")
			found = a.get("k")
			return found.LocalTTL > time.Minute
		})
		w.near("the copy", found.LocalTTL, 5*time.Minute)
	}, everywhere},

	{"D6", "no key, another's lease and content that cannot be read are misses, never an answer of absent", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.LeaseWait = 20 * time.Millisecond }))
		holder := w.instance()
		load := w.hold("leased")
		holder.begin("leased")
		load.wait()
		w.do("SET", at("unreadable"), "of another program")
		for _, key := range []string{"nothing", "leased", "unreadable"} {
			w.source.set(key, "v")
			before := w.source.count(key)
			found, err := a.Peek(ctx, key)
			if err != nil || found.Kind != cache.Unpopulated {
				w.Errorf("a look at %s: %+v, %v", key, found, err)
			}
			a.want(key, "v")
			w.wantLoads(key, before+1)
		}
	}, everywhere},

	{"D7 D8", "a loader's absent is stored as a negative entry, which answers absent to everybody without a load", func(w *world) {
		a, b := w.instance(), w.instance()
		a.want("k", "absent")
		w.wantHeld("k", "M")
		for _, source := range []cache.Source{cache.FromL1, cache.FromL2} {
			if found := b.get("k"); found.Kind != cache.Absent || found.Source != source {
				w.Errorf("b got %+v, want it from %s", found, source)
			}
		}
		w.wantLoads("k", 1)
	}, everywhere},

	{"D9", "so is a key that a batch does not find", func(w *world) {
		a := w.instance(batching(w))
		w.source.set("k1", "v")
		a.beginAll("k1", "k2").want("v absent")
		w.wantHeld("k1", "Vv")
		w.wantHeld("k2", "M")
	}, everywhere},

	{"D10", "a negative entry lives for absent-ttl: then a row that nobody told of is seen", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.AbsentTTL = 300 * time.Millisecond }))
		w.near("the copy", a.get("k").LocalTTL, 300*time.Millisecond)
		w.near("the entry", w.life("k"), 300*time.Millisecond)
		w.source.set("k", "v")
		w.until("L1 has let go", func() bool { return w.life("k") == 0 })
		w.moment()
		a.want("k", "v")
	}, everywhere},

	{"D12", "without a loader a miss leaves nothing in L1", func(w *world) {
		a := w.instance(external)
		a.sends("read", func() { a.want("k", "unpopulated") })
		w.wantHeld("k", "")
		a.beginAll("k1", "k2").want("unpopulated unpopulated")
		w.wantHeld("k1", "")
	}, everywhere},

	{"D13", "so a put by another instance is seen after such a miss", func(w *world) {
		a, b := w.instance(external), w.instance(external)
		a.want("k", "unpopulated")
		b.put("k", "v")
		w.until("a sees the put", func() bool { return text(a.get("k")) == "v" })
	}, everywhere},

	{"D14 D16", "such a miss is remembered in L2 for absent-ttl, and is an answer of its own", func(w *world) {
		a := w.instance(external, with(func(p *policy.Policy) { p.AbsentTTL = 200 * time.Millisecond }))
		w.near("the memory", a.get("k").LocalTTL, 200*time.Millisecond)
		a.sends("read", func() { // one for all reads, once the memory has ended
			w.until("the memory ends", func() bool {
				a.want("k", "unpopulated")
				return len(a.sent()) > 0
			})
		})
	}, everywhere},

	{"D15", "a reader with its own loader does not take that memory for an answer", func(w *world) {
		a := w.instance(external)
		w.source.set("k", "own")
		a.want("k", "unpopulated")
		found, err := a.GetWith(ctx, "k", w.source)
		if err != nil || found.Value != "own" || !found.StoredL1 {
			w.Errorf("got %+v, %v", found, err)
		}
		w.wantHeld("k", "Vown")
		a.want("k", "own")
	}, everywhere},

	{"D17", "without a loader and without Redis the answer is unknown, and nothing is remembered of it", func(w *world) {
		a, b := w.instance(external), w.instance(external)
		b.put("k", "v")
		a.loseRedis()
		for range 3 {
			found, err := a.Get(ctx, "k")
			var unreadable *cache.ReadError
			if !errors.As(err, &unreadable) || found.Kind != cache.Unknown {
				w.Fatalf("got %+v, %v", found, err)
			}
		}
		if n := a.Stats().L2Entries; n != 0 {
			w.Errorf("%d copies", n)
		}
		a.wire.Down(nil)
		var found cache.Lookup
		w.until("redis is back", func() (back bool) {
			var err error
			found, err = a.Get(ctx, "k")
			return err == nil
		})
		if found.Value != "v" || found.Source != cache.FromL1 {
			w.Errorf("the first answer: %+v", found)
		}
	}, everywhere},

	{"D18", "whatever a reader meets in L1, it sends no command that removes, and changes nothing if it cannot load", func(w *world) {
		a := w.instance(batching(w), with(func(p *policy.Policy) { p.LeaseWait = policy.Off }))
		looks, holder := w.instance(external), w.instance()
		load := w.hold("lease")
		held := holder.begin("lease")
		load.wait()
		holder.put("value", "v")
		value := w.bytes("value")
		contents := map[string]string{"empty": "", "foreign": "of another program", "later": laterFormat, "cut": value[:100],
			"state": value[:3] + "Z" + value[4:], "codec": value[:167] + "\x01" + value[168:], "digits": value[:50] + "x" + value[51:],
			"sizes": value[:168] + "\xff" + value[169:], "lease": w.bytes("lease"), "magic": value[:2]}
		keys := []string{"list"}
		w.do("RPUSH", at("list"), "item")
		for key, content := range contents {
			keys = append(keys, key)
			w.do("SET", at(key), content)
			w.source.set(key, "v")
		}
		w.source.set("list", "v")
		for _, key := range keys {
			looks.want(key, "unpopulated")
			if _, err := a.Peek(ctx, key); err != nil {
				w.Error(err)
			}
			if key != "list" && w.bytes(key) != contents[key] {
				w.Errorf("%s: a reader that cannot load left %q", key, w.bytes(key))
			}
		}
		a.beginAll(keys...).want(strings.TrimSpace(strings.Repeat("v ", len(keys))))
		for _, i := range []*instance{a, looks} {
			for _, verb := range i.sent() {
				if !slices.Contains([]string{"read", "reclaim", "fill", "publish", "probe"}, verb) {
					w.Errorf("a reader sent %q", verb)
				}
			}
		}
		w.wantList("list")
		load.release()
		held.wait()
	}, everywhere},

	{"D19 D20", "content that cannot be read, and a value of another codec, become a lease, then a value for everybody", func(w *world) {
		w.do("SET", at("foreign"), "of another program")
		w.instance(with(func(p *policy.Policy) { p.Codec = policy.JSON })).put("codec", `"json"`)
		a, b := w.instance(), w.instance()
		for _, key := range []string{"foreign", "codec"} {
			w.source.set(key, "v")
			load := w.hold(key)
			a.sends("read reclaim fill", func() {
				r := a.begin(key)
				load.wait()
				w.wantHeld(key, "L")
				load.release()
				r.want("v")
			})
			if found := b.get(key); found.Value != "v" || found.Source != cache.FromL1 {
				w.Errorf("b: %+v", found)
			}
			w.wantLoads(key, 1)
		}
	}, everywhere},

	{"D21", "content that changes before it can become a lease stays; that read loads without L1", func(w *world) {
		a, b := w.instance(), w.instance()
		w.do("SET", at("k"), "of another program")
		w.source.set("k", "v1")
		a.connect()
		a.wire.Slow(wire.Commands, 300*time.Millisecond)
		r := a.begin("k")
		w.until("the reclaim is on its way", func() bool { return a.sentOn("k", "reclaim") == 1 })
		b.put("k", "v2")
		if found := r.want("v1"); found.Degraded != cache.ForeignContent || found.TTL != 0 {
			w.Errorf("got %+v", found)
		}
		w.wantHeld("k", "Vv2")
		if n := a.sentOn("k", "fill"); n != 0 {
			w.Errorf("%d fills", n)
		}
	}, everywhere},

	{"D22", "an entry of a later format is left alone and read around, with a degraded copy in L2", func(w *world) {
		a := w.instance()
		w.source.set("k", "v")
		w.do("SET", at("k"), laterFormat)
		a.sends("read", func() {
			for _, source := range []cache.Source{cache.FromLoader, cache.FromL2, cache.FromL2} {
				if found := a.get("k"); found.Value != "v" || found.Source != source || found.Degraded == cache.NotDegraded || found.TTL != 0 {
					w.Errorf("got %+v, want it from %s", found, source)
				}
			}
		})
		if got := w.bytes("k"); got != laterFormat {
			w.Errorf("L1 holds %q", got)
		}
	}, everywhere},

	{"D23", "a key of another Redis type is read around, and replaced or removed by a write; nobody sees an error", func(w *world) {
		a := w.instance()
		for _, key := range []string{"put", "drop", "batch"} {
			w.source.set(key, "v")
			w.do("RPUSH", at(key), "item")
		}
		if found := a.get("put"); found.Value != "v" || found.Degraded != cache.ForeignContent {
			w.Errorf("got %+v", found)
		}
		a.beginAll("batch", "drop").want("v v")
		w.wantList("batch")
		a.put("put", "w")
		w.wantHeld("put", "Vw")
		a.drop("drop")
		w.wantHeld("drop", "")
		a.want("drop", "v")
		w.wantHeld("drop", "Vv")
	}, everywhere},

	{"D24", "a batch looks into L2 key by key first", func(w *world) {
		a := w.instance(batching(w))
		w.source.set("k1", "1")
		w.source.set("k2", "2")
		a.want("k1", "1")
		a.sends("read fill", func() { a.beginAll("k1", "k2").want("1 2") })
		a.sends("", func() { a.beginAll("k1", "k2").want("1 2") })
	}, everywhere},

	{"D25 D26 D27", "a batch asks L1 for all its keys and their leases at once, loads in one call, and fills at once", func(w *world) {
		a := w.instance(batching(w))
		const n = 100
		keys := make([]string, n)
		values := make([]string, n)
		for j := range keys {
			keys[j], values[j] = fmt.Sprint("k", j), fmt.Sprint("v", j)
			w.source.set(keys[j], values[j])
		}
		a.connect()
		load := w.hold("k0")
		a.wire.Hold(wire.Commands)
		batch := a.beginAll(keys...)
		w.until("all reads are sent, though none is answered", func() bool { return a.sentOn("", "read") == n })
		a.wire.Release()
		load.wait()
		for _, key := range keys {
			w.wantHeld(key, "L")
		}
		a.wire.Hold(wire.Commands)
		load.release()
		w.until("all fills are sent, though none is answered", func() bool { return a.sentOn("", "fill") == n })
		a.wire.Release()
		batch.want(strings.Join(values, " "))
		w.wantBatches(keys)
		if sent := a.sent(); len(sent) != 2*n {
			w.Errorf("sent %d commands: %q", len(sent), sent)
		}
	}, everywhere},

	{"D28", "a batch joins the load of a single key and loads the others", func(w *world) {
		a := w.instance(batching(w))
		w.source.set("k1", "1")
		w.source.set("k2", "2")
		load := w.hold("k1")
		single := a.begin("k1")
		load.wait()
		batch := a.beginAll("k1", "k2")
		w.until("k2 is filled", func() bool { return w.holds("k2") == "V2" })
		load.release()
		single.want("1")
		batch.want("1 2")
		w.wantBatches([]string{"k2"})
		w.wantLoads("k1", 1)
	}, everywhere},

	{"D29", "a batch does not wait for another instance's lease: it loads that key without L1", func(w *world) {
		a, b := w.instance(), w.instance(batching(w))
		w.source.set("k1", "1")
		w.source.set("k2", "2")
		load := w.hold("k1")
		slow := a.begin("k1")
		load.wait()
		items := b.GetAll(ctx, []string{"k1", "k2"})
		if found := items[0].Lookup; found.Value != "1" || found.Degraded != cache.LeaseWait || found.Waited {
			w.Errorf("k1: %+v", items[0])
		}
		if found := items[1].Lookup; found.Value != "2" || !found.StoredL1 {
			w.Errorf("k2: %+v", items[1])
		}
		w.wantHeld("k1", "L")
		if reads, fills := b.sentOn("k1", "read"), b.sentOn("k1", "fill"); reads != 1 || fills != 0 {
			w.Errorf("%d reads and %d fills of k1", reads, fills)
		}
		load.release()
		slow.want("1")
		w.wantHeld("k1", "V1")
	}, everywhere},

	{"D30", "a batch after an invalidation takes nothing from a load before it", func(w *world) {
		a := w.instance(batching(w))
		w.source.set("k", "v1")
		load := w.hold("k")
		old := a.begin("k")
		load.wait()
		w.source.set("k", "v2")
		a.drop("k")
		a.beginAll("k").want("v2")
		load.release()
		old.want("v1")
		a.beginAll("k").want("v2")
		w.wantHeld("k", "Vv2")
	}, everywhere},

	{"D31", "a loader sees the values of the context of the reader that leads, and its own deadline", func(w *world) {
		a := w.instance(batching(w))
		type trace struct{}
		traced := context.WithValue(ctx, trace{}, "t1")
		for way, read := range map[string]func(){
			"get":   func() { a.Get(traced, "k1") },
			"batch": func() { a.GetAll(traced, []string{"k2"}) },
			"own":   func() { a.GetWith(traced, "k3", w.source) },
		} {
			began := time.Now()
			read()
			_, seen := w.source.last()
			deadline, ok := seen.Deadline()
			if seen.Value(trace{}) != "t1" || !ok || deadline.Before(began.Add(30*time.Second)) {
				w.Errorf("%s: trace %v, deadline in %v", way, seen.Value(trace{}), deadline.Sub(began))
			}
		}
	}, everywhere},

	{"D32", "a loader that does not return holds up nobody else's Redis traffic", func(w *world) {
		a := w.instance(batching(w))
		for _, key := range []string{"stuck", "k1", "k2"} {
			w.source.set(key, "v")
		}
		load := w.deaf("stuck")
		stuck := a.begin("stuck")
		load.wait()
		a.sends("read fill put invalidate read read fill fill", func() {
			a.want("k1", "v")
			a.put("k1", "w")
			a.drop("k1")
			a.beginAll("k1", "k2").want("v v")
		})
		load.release()
		stuck.want("v")
	}, everywhere},

	{"D33", "a reader whose fill was refused still gets what the source held while it read; L1 does not hold that", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v1")
		load := w.hold("k")
		r := a.begin("k")
		load.wait()
		w.source.set("k", "v2")
		b.put("k", "v2")
		load.release()
		if found := r.want("v1"); found.Degraded != cache.FillRefused || found.TTL != 0 {
			w.Errorf("got %+v", found)
		}
		w.until("a sees the put", func() bool { return text(a.get("k")) == "v2" })
		w.wantHeld("k", "Vv2")
	}, everywhere},

	{"D34", "a load over loads.max-concurrent is refused, asks the source for nothing and leaves no lease", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.Loads.MaxConcurrent, p.Loads.MaxQueued = 2, policy.NoQueue }))
		var within []*reading
		var loads []*hold
		for _, key := range []string{"k1", "k2"} {
			w.source.set(key, "v")
			load := w.hold(key)
			within = append(within, a.begin(key))
			load.wait()
			loads = append(loads, load)
		}
		_, err := a.Get(ctx, "k3")
		var overloaded *cache.OverloadedError
		if !errors.As(err, &overloaded) {
			w.Errorf("got %v", err)
		}
		w.wantLoads("k3", 0)
		w.wantHeld("k3", "")
		for j, load := range loads {
			load.release()
			within[j].want("v")
		}
		a.want("k3", "absent")
	}, everywhere},
}

// laterFormat is an entry of a format to come.
const laterFormat = "\xff\xcc2 of a later release"

// external is an instance without a loader.
func external(o *options) { o.Loader = nil }

// batching is an instance whose loader takes batches.
func batching(w *world) func(*options) {
	return func(o *options) { o.Loader = inBatches{w.source} }
}

// beginAll starts a batch of its own; its answer is one value, those of the keys
// joined by blanks.
func (i *instance) beginAll(keys ...string) *reading {
	return i.beginWith(func(ctx context.Context) (cache.Lookup, error) {
		var texts []string
		var errs []error
		for _, item := range i.GetAll(ctx, keys) {
			texts, errs = append(texts, text(item.Lookup)), append(errs, item.Err)
		}
		return cache.Lookup{Kind: cache.Value, Value: strings.Join(texts, " ")}, errors.Join(errs...)
	})
}

// sentOn is how often an instance has sent a script on a key, or on any.
func (i *instance) sentOn(key, verb string) int {
	n := 0
	for _, c := range i.wire.Sent() {
		if c.Is("EVALSHA") && verbOf(c.Words[1]) == verb && (key == "" || c.Words[3] == at(key)) {
			n++
		}
	}
	return n
}

// untilFrom reads a key until the answer comes from there.
func (i *instance) untilFrom(source cache.Source, key string) (found cache.Lookup) {
	i.w.Helper()
	i.w.until("an answer from "+source.String(), func() bool {
		found = i.get(key)
		return found.Source == source
	})
	return found
}

// wantList checks that a key still holds a list of one item.
func (w *world) wantList(key string) {
	w.Helper()
	length := w.do("LLEN", at(key))
	if n, err := length.AsInt64(); n != 1 {
		w.Fatalf("the list under %q has %d items, %v", key, n, err)
	}
}

func (w *world) wantBatches(want ...[]string) {
	w.Helper()
	w.source.mu.Lock()
	defer w.source.mu.Unlock()
	if !slices.EqualFunc(w.source.batch, want, slices.Equal[[]string]) {
		w.Fatalf("the loader was asked for %q, want %q", w.source.batch, want)
	}
}

package l1

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/policy"
)

func TestEveryServerBehavesAlike(t *testing.T) { everywhere(t, behaviours) }

var behaviours = []behaviour{
	{"a read that asks for no lease leaves nothing", func(w *world) {
		if r := w.read(w.a, "k", Ask{}); r != (Reading{}) {
			w.Errorf("got %+v", r)
		}
		w.life("k", gone)
	}},
	{"a miss leases to one", func(w *world) {
		token := w.lease(w.a, "k")
		w.life("k", 10*time.Minute)
		if r := w.read(w.b, "k", forLease); r.Kind != Held || r.Granted() || r.Left <= 9*time.Minute || r.Left > 10*time.Minute {
			w.Errorf("another reads %+v", r)
		}
		if r := w.read(w.a, "k", Ask{}); r.Kind != Held {
			w.Errorf("the holder's other reader reads %+v", r)
		}
		if e := w.entry("k"); e.State != entry.Lease || e.Token != token || e.Until-e.IssuedAt != 600_000 {
			w.Errorf("holds %+v", e)
		}
		w.life("k", 10*time.Minute)
	}},
	{"of many readers one is leased", func(w *world) {
		var leased, held atomic.Int64
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				switch r, err := w.a.Read(ctx, "k", forLease); {
				case err == nil && r.Kind == Leased:
					leased.Add(1)
				case err == nil && r.Kind == Held:
					held.Add(1)
				}
			})
		}
		wg.Wait()
		if leased.Load() != 1 || held.Load() != 19 {
			w.Errorf("%d leased, %d held", leased.Load(), held.Load())
		}
	}},
	{"the lease's token fills, once", func(w *world) {
		token := w.lease(w.a, "k")
		f := Fill{State: entry.Value, TTL: time.Hour, Version: 1<<64 - 1,
			Body: entry.Body{Codec: 2, ContentType: "text/x", Payload: "\x00va\xfflue"}}
		if w.fill(w.b, "k", w.b.tokens.Next(), f) {
			w.Error("another token filled")
		}
		w.life("k", 10*time.Minute)
		if !w.fill(w.a, "k", token, f) {
			w.Fatal("refused")
		}
		w.life("k", time.Hour)
		r := w.read(w.b, "k", forLease)
		if r.Kind != Hit || r.Granted() || r.Entry.Body != f.Body || r.Entry.Version != f.Version ||
			r.Entry.State != entry.Value || r.Left <= 59*time.Minute || r.Left > time.Hour {
			w.Errorf("reads %+v", r)
		}
		if e := w.entry("k"); e.Token != (entry.Token{}) || e.IssuedAt != 0 {
			w.Errorf("the token stayed: %+v", e)
		}
		if w.fill(w.a, "k", token, value("again")) {
			w.Error("filled twice")
		}
		w.life("k", time.Hour)
	}},
	{"a fill of nothing is a negative entry", func(w *world) {
		if !w.fill(w.a, "k", w.lease(w.a, "k"), Fill{State: entry.Negative, TTL: 2 * time.Minute}) {
			w.Fatal("refused")
		}
		w.life("k", 2*time.Minute)
		if r := w.read(w.b, "k", forLease); r.Kind != Hit || r.Entry.State != entry.Negative || r.Entry.Payload != "" {
			w.Errorf("reads %+v", r)
		}
	}},
	{"forever has no expiry, and gets one with the next put", func(w *world) {
		forever := Fill{State: entry.Value, TTL: policy.Forever}
		w.fill(w.a, "k", w.lease(w.a, "k"), forever)
		w.life("k", policy.Forever)
		if r := w.read(w.a, "k", Ask{}); r.Left != policy.Forever {
			w.Errorf("left %v", r.Left)
		}
		if r := w.read(w.a, "k", Ask{RefreshWindow: 1000 * time.Hour, LeaseTTL: time.Minute}); r.Granted() {
			w.Error("a refresh of what never ends")
		}
		w.put("k", value("v"))
		w.life("k", time.Hour)
		w.put("k", forever)
		w.life("k", policy.Forever)
		w.invalidate("k")
		w.life("k", gone)
	}},
	{"a ttl below a millisecond is one", func(w *world) {
		w.put("k", Fill{State: entry.Value, TTL: 1})
		w.eventually("expired", func() bool { return w.bytes("k") == "" })
		if r := w.read(w.a, "k", Ask{}); r.Kind != Miss {
			w.Errorf("reads %+v", r)
		}
	}},
	{"release takes the holder's token alone", func(w *world) {
		token := w.lease(w.a, "k")
		w.release(w.b, "k", w.b.tokens.Next())
		w.life("k", 10*time.Minute)
		w.release(w.a, "k", token)
		w.life("k", gone)
		w.release(w.a, "k", token)
		w.lease(w.b, "k")
		w.release(w.a, "k", token)
		w.life("k", 10*time.Minute)
		if w.fill(w.a, "k", token, value("v")) {
			w.Error("a released token filled")
		}
	}},
	{"release leaves a value alone", func(w *world) {
		token := w.lease(w.a, "k")
		w.fill(w.a, "k", token, value("v"))
		before := w.bytes("k")
		w.release(w.a, "k", token)
		w.release(w.a, "k", entry.Token{0: 1})
		if w.bytes("k") != before {
			w.Error("changed")
		}
		w.life("k", time.Hour)
	}},
	{"a lease that ran out goes to the next, and its token fills nothing", func(w *world) {
		r := w.read(w.a, "k", Ask{Lease: true, LeaseTTL: 50 * time.Millisecond})
		var next Reading
		w.eventually("taken over", func() bool { next = w.read(w.b, "k", forLease); return next.Kind == Leased })
		if w.fill(w.a, "k", r.Token, value("old")) {
			w.Error("the old token filled")
		}
		w.release(w.a, "k", r.Token)
		w.life("k", 10*time.Minute)
		if !w.fill(w.b, "k", next.Token, value("new")) {
			w.Error("the new token did not fill")
		}
	}},
	{"a key that outlives its header goes by the header", func(w *world) {
		w.read(w.a, "lease", Ask{Lease: true, LeaseTTL: time.Millisecond})
		w.put("value", Fill{State: entry.Value, TTL: time.Millisecond})
		for key, s := range map[string]entry.State{"lease": entry.Lease, "value": entry.Value, "negative": entry.Negative} {
			old, err := entry.Encode(entry.Entry{State: s, Token: w.a.tokens.Next(), IssuedAt: 1000, Until: 2000})
			if err != nil {
				w.Fatal(err)
			}
			w.do("SET", prefix+key, old)
			if r := w.read(w.a, key, Ask{}); r.Kind != Miss {
				w.Errorf("%s: reads %+v", key, r)
			}
			w.lease(w.a, key)
			w.life(key, 10*time.Minute)
		}
	}},
	{"a lease issued in the server's future has run out", func(w *world) {
		ahead := time.Now().Add(24 * time.Hour).UnixMilli()
		s, _ := entry.Encode(entry.Entry{State: entry.Lease, Token: w.b.tokens.Next(), IssuedAt: ahead, Until: ahead + 1000})
		w.do("SET", prefix+"k", s)
		w.lease(w.a, "k")
	}},
	{"an invalidation between two leases parts their tokens", func(w *world) {
		first := w.lease(w.a, "k")
		w.invalidate("k")
		w.life("k", gone)
		second := w.lease(w.a, "k")
		if first == second {
			w.Fatal("the same token twice")
		}
		if w.fill(w.a, "k", first, value("old")) {
			w.Error("the first fills under the second's lease")
		}
		w.release(w.a, "k", first)
		if !w.fill(w.a, "k", second, value("new")) {
			w.Error("the second was refused")
		}
		if got := w.entry("k").Payload; got != "new" {
			w.Errorf("holds %q", got)
		}
	}},
	{"put overwrites any state, and destroys its token", func(w *world) { overwrite(w) }},
	{"invalidate removes any state, and destroys its token", func(w *world) {
		for name, token := range w.states() {
			w.invalidate(name)
			w.life(name, gone)
			if w.fill(w.a, name, token, value("old")) {
				w.Errorf("%s: the token still fills", name)
			}
			w.life(name, gone)
		}
	}},
	{"what is not an entry can be read, and reclaimed while it is the same", func(w *world) {
		for name, content := range foreign() {
			w.do("SET", prefix+name, content, "PX", "3600000")
			for _, ask := range []Ask{{}, forLease, {RefreshWindow: time.Hour, LeaseTTL: time.Minute}} {
				if r := w.read(w.a, name, ask); r.Kind != Unreadable || r.Content != content || r.Granted() {
					w.Errorf("%s: reads %+v", name, r)
				}
			}
			if w.fill(w.a, name, w.a.tokens.Next(), value("v")) {
				w.Errorf("%s: filled", name)
			}
			w.do("SET", prefix+name, content+"!", "PX", "3600000")
			if _, ok, err := w.a.Reclaim(ctx, name, content, time.Minute); ok || err != nil {
				w.Errorf("%s: reclaimed what has changed: %v, %v", name, ok, err)
			}
			if w.bytes(name) != content+"!" {
				w.Errorf("%s: changed by a refused reclaim", name)
			}
			w.life(name, time.Hour)
			token, ok, err := w.a.Reclaim(ctx, name, content+"!", 10*time.Minute)
			if !ok || err != nil {
				w.Fatalf("%s: not reclaimed: %v", name, err)
			}
			w.life(name, 10*time.Minute)
			if r := w.read(w.b, name, forLease); r.Kind != Held {
				w.Errorf("%s: after the reclaim another reads %+v", name, r)
			}
			if !w.fill(w.a, name, token, value("v")) {
				w.Errorf("%s: the reclaim's token does not fill", name)
			}
			w.life(name, time.Hour)
		}
	}},
	{"reclaim of what is gone or no string changes nothing", func(w *world) {
		w.do("RPUSH", prefix+"list", "x")
		for _, key := range []string{"list", "absent"} {
			if _, ok, err := w.a.Reclaim(ctx, key, "", time.Minute); ok || err != nil {
				w.Errorf("%s: %v, %v", key, ok, err)
			}
		}
		w.life("absent", gone)
		w.life("list", policy.Forever)
	}},
	{"an entry of a newer format is left alone by all but put and invalidate", func(w *world) {
		newer := "\xff\xcc2" + strings.Repeat("x", 200)
		w.do("SET", prefix+"k", newer)
		for _, ask := range []Ask{{}, forLease} {
			if r := w.read(w.a, "k", ask); r != (Reading{Kind: Newer}) {
				w.Errorf("reads %+v", r)
			}
		}
		token := entry.Token([]byte(newer[4:28]))
		if w.fill(w.a, "k", token, value("v")) {
			w.Error("filled")
		}
		w.release(w.a, "k", token)
		if w.bytes("k") != newer {
			w.Error("changed")
		}
		w.life("k", policy.Forever)
	}},
	{"another type is a read's foreign-type, and no error to anyone", func(w *world) {
		w.do("RPUSH", prefix+"k", "x")
		for _, ask := range []Ask{{}, forLease} {
			if r := w.read(w.a, "k", ask); r != (Reading{Kind: ForeignType}) {
				w.Errorf("reads %+v", r)
			}
		}
		token := w.a.tokens.Next()
		if w.fill(w.a, "k", token, value("v")) {
			w.Error("filled")
		}
		w.release(w.a, "k", token)
		w.life("k", policy.Forever)
		w.put("k", value("v"))
		w.life("k", time.Hour)
		w.do("DEL", prefix+"k")
		w.do("RPUSH", prefix+"k", "x")
		w.invalidate("k")
		w.life("k", gone)
	}},
	{"the refresh token goes to one, until it is cleared", func(w *world) { refreshOnce(w) }},
	{"a refresh token that ran out goes to the next", func(w *world) {
		w.put("k", value("v"))
		short := Ask{RefreshWindow: 2 * time.Hour, LeaseTTL: 50 * time.Millisecond}
		first := w.read(w.a, "k", short)
		if !first.Granted() {
			w.Fatal("not granted")
		}
		var next Reading
		w.eventually("taken over", func() bool { next = w.read(w.b, "k", short); return next.Granted() })
		if w.fill(w.a, "k", first.Token, value("old")) {
			w.Error("the old token filled")
		}
		if !w.fill(w.b, "k", next.Token, value("new")) {
			w.Error("the new one did not fill")
		}
	}},
	{"no refresh before its window, and none unasked", func(w *world) {
		w.put("k", value("v"))
		before := w.bytes("k")
		for _, ask := range []Ask{{RefreshWindow: 10 * time.Minute, LeaseTTL: time.Minute}, forLease, {}} {
			if r := w.read(w.a, "k", ask); r.Kind != Hit || r.Granted() {
				w.Errorf("%+v: %+v", ask, r)
			}
		}
		if w.bytes("k") != before {
			w.Error("a read changed the entry")
		}
	}},
	{"an invalidation destroys the refresh token", func(w *world) {
		w.put("k", value("v"))
		r := w.read(w.a, "k", Ask{RefreshWindow: 2 * time.Hour, LeaseTTL: time.Minute})
		w.invalidate("k")
		if w.fill(w.a, "k", r.Token, value("old")) {
			w.Error("it fills")
		}
		w.life("k", gone)
	}},
	{"every key works and is its own", func(w *world) {
		keys := oddKeys()
		for i, key := range keys {
			w.lease(w.a, key)
			w.put(key, value(fmt.Sprint(i)))
		}
		if n, _ := w.do("DBSIZE").AsInt64(); int(n) != len(keys) {
			w.Errorf("%d keys in redis for %d", n, len(keys))
		}
		for i, key := range keys {
			if got := w.entry(key).Payload; got != fmt.Sprint(i) {
				w.Errorf("%.20q holds %q, want %d", key, got, i)
			}
		}
		for i, o := range w.b.ReadAll(ctx, keys, Ask{}) {
			if o.Err != nil || o.Reading.Entry.Payload != fmt.Sprint(i) {
				w.Errorf("%.20q: batch reads %+v", keys[i], o)
			}
		}
		w.invalidate(keys[1:]...)
		if n, _ := w.do("DBSIZE").AsInt64(); n != 1 {
			w.Errorf("%d keys left", n)
		}
		w.life(keys[0], time.Hour)
	}},
	{"namespaces do not meet", func(w *world) {
		w.put("k", value("v"))
		for _, name := range []string{"m", "n2", "k"} {
			if r := w.read(w.client.Namespace(name, w.nodeA), "k", Ask{}); r.Kind != Miss {
				w.Errorf("%s: reads %+v", name, r)
			}
		}
		o := w.client.opts
		o.KeyPrefix = "other:"
		other := Open(o)
		defer other.Close()
		if r := w.read(other.Namespace("n", w.nodeA), "k", Ask{}); r.Kind != Miss {
			w.Errorf("another prefix reads %+v", r)
		}
	}},
	{"forgotten scripts are sent anew", func(w *world) {
		flush := func() { w.do("SCRIPT", "FLUSH") }
		flush()
		token := w.lease(w.a, "k")
		flush()
		w.release(w.a, "k", token)
		token = w.lease(w.a, "k")
		flush()
		if !w.fill(w.a, "k", token, value("v")) {
			w.Error("refused")
		}
		flush()
		w.put("k", value("w"))
		flush()
		w.invalidate("k")
		w.do("SET", prefix+"k", "x")
		flush()
		if _, ok, err := w.a.Reclaim(ctx, "k", "x", time.Minute); !ok || err != nil {
			w.Errorf("reclaim: %v, %v", ok, err)
		}
		flush()
		for _, o := range w.a.ReadAll(ctx, []string{"1", "2", "3"}, forLease) {
			if o.Err != nil || o.Reading.Kind != Leased {
				w.Errorf("batch: %+v", o)
			}
		}
	}},
	{"batches answer in the order of their keys", func(w *world) {
		w.put("value", value("v"))
		w.lease(w.b, "held")
		w.do("SET", prefix+"text", "text")
		w.do("RPUSH", prefix+"list", "x")
		keys := []string{"miss", "value", "held", "text", "list", "miss too", "value"}
		var kinds []Kind
		var fills []KeyFill
		tokens := map[entry.Token]bool{}
		for i, o := range w.a.ReadAll(ctx, keys, forLease) {
			if o.Err != nil {
				w.Fatal(o.Err)
			}
			kinds = append(kinds, o.Reading.Kind)
			if o.Reading.Granted() {
				tokens[o.Reading.Token] = true
				fills = append(fills, KeyFill{Key: keys[i], Token: o.Reading.Token, Fill: value(keys[i])})
			}
		}
		if want := []Kind{Leased, Hit, Held, Unreadable, ForeignType, Leased, Hit}; !slices.Equal(kinds, want) {
			w.Errorf("kinds %v, want %v", kinds, want)
		}
		if len(tokens) != 2 {
			w.Fatalf("%d tokens", len(tokens))
		}
		tooLong := value("x")
		tooLong.Body.ContentType = strings.Repeat("x", entry.MaxContentType+1)
		fills = append([]KeyFill{{Key: "held", Token: w.a.tokens.Next(), Fill: value("x")}, {Key: "bad", Fill: tooLong}}, fills...)
		for i, o := range w.a.FillAll(ctx, fills) {
			if stored := i >= 2; o.Stored != stored || (o.Err != nil) != (i == 1) {
				w.Errorf("%s: %+v", fills[i].Key, o)
			}
		}
		for _, key := range []string{"miss", "miss too"} {
			if got := w.entry(key).Payload; got != key {
				w.Errorf("%q holds %q", key, got)
			}
			w.life(key, time.Hour)
		}
	}},
	{"an invalidation with a stale-ttl leaves a copy without a token", func(w *world) {
		w.put("v", value("v1")) // of an hour
		w.put("m", Fill{State: entry.Negative, TTL: time.Hour})
		w.put("short", Fill{State: entry.Value, TTL: time.Minute, Body: entry.Body{Payload: "s"}})
		w.lease(w.a, "l")
		w.do("RPUSH", prefix+"list", "x")
		w.do("SET", prefix+"foreign", "x")
		keys := []string{"v", "m", "short", "l", "list", "foreign", "none"}
		for _, err := range w.a.Invalidate(ctx, keys, 10*time.Minute) {
			if err != nil {
				w.Fatal(err)
			}
		}
		for key, life := range map[string]time.Duration{"v": 10 * time.Minute, "short": time.Minute} {
			if e := w.entry(key); e.State != entry.Stale || e.Token != (entry.Token{}) || e.Until != 0 {
				w.Errorf("%s: %+v", key, e)
			}
			w.life(key, life)
		}
		for _, key := range []string{"m", "l", "list", "foreign", "none"} {
			w.life(key, gone)
		}
		// A lease over it keeps the copy and its end; a release restores it, and a
		// second invalidation neither lengthens nor drops it.
		r := w.read(w.a, "v", Ask{Lease: true, LeaseTTL: time.Minute})
		if r.Kind != Leased || r.Stale == nil || r.Stale.Entry.Payload != "v1" {
			w.Fatalf("got %+v", r)
		}
		w.life("v", 10*time.Minute)
		if other := w.read(w.b, "v", forLease); other.Kind != Held || other.Stale == nil || other.Stale.Entry.Payload != "v1" {
			w.Errorf("another reads %+v", other)
		}
		w.release(w.a, "v", r.Token)
		if e := w.entry("v"); e.State != entry.Stale || e.Token != (entry.Token{}) {
			w.Errorf("released: %+v", e)
		}
		w.life("v", 10*time.Minute)
		before := w.entry("v").StaleUntil
		token := w.lease(w.a, "v")
		w.a.Invalidate(ctx, []string{"v"}, time.Hour)
		if e := w.entry("v"); e.State != entry.Stale || e.StaleUntil != before {
			w.Errorf("invalidated again: %+v, before until %d", e, before)
		}
		if w.fill(w.a, "v", token, value("v1")) {
			w.Error("a token outlived the invalidation")
		}
		// Without a stale-ttl nothing stays, and a fill or a put drops the copy.
		if !w.fill(w.a, "v", w.lease(w.a, "v"), value("v2")) {
			w.Error("refused")
		}
		if e := w.entry("v"); e.StaleUntil != 0 || e.Payload != "v2" {
			w.Errorf("filled: %+v", e)
		}
		w.life("v", time.Hour)
		w.invalidate("v", "short")
		w.life("v", gone)
		w.life("short", gone)
	}},
	{"puts go in as few trips as their size allows, in order", func(w *world) {
		var puts []KeyFill
		for i := range 600 {
			puts = append(puts, KeyFill{Key: fmt.Sprint(i % 550), Fill: value(fmt.Sprint(i))})
		}
		big := value(strings.Repeat("v", 400<<10))
		puts = append(puts, KeyFill{Key: "big", Fill: big}, KeyFill{Key: "big2", Fill: big}, KeyFill{Key: "big3", Fill: big},
			KeyFill{Key: "bad", Fill: Fill{State: entry.Value, TTL: time.Hour, Body: entry.Body{ContentType: strings.Repeat("x", 200)}}})
		for i, err := range w.a.PutAll(ctx, puts) {
			if (err != nil) != (puts[i].Key == "bad") {
				w.Errorf("%s: %v", puts[i].Key, err)
			}
		}
		for i := range 550 {
			want := fmt.Sprint(i)
			if i < 50 {
				want = fmt.Sprint(i + 550)
			}
			if got := w.entry(fmt.Sprint(i)).Payload; got != want {
				w.Errorf("%d: %s", i, got)
			}
		}
		w.life("big3", time.Hour)
		w.life("bad", gone)
	}},
	{"empty batches ask nothing", func(w *world) {
		if got := w.a.PutAll(ctx, nil); len(got) != 0 {
			w.Errorf("put: %v", got)
		}
		if got := w.a.Invalidate(ctx, nil, 0); len(got) != 0 {
			w.Errorf("invalidate: %v", got)
		}
		if got := w.a.FillAll(ctx, nil); len(got) != 0 {
			w.Errorf("fill: %v", got)
		}
	}},
	{"writers tell, readers and fills do not", func(w *world) {
		next := w.hear()
		token := w.lease(w.a, "k")
		w.release(w.a, "k", token)
		w.fill(w.a, "k", w.lease(w.a, "k"), value("v"))
		if err := w.a.Join(ctx); err != nil {
			w.Error(err)
		}
		if f := next(); f.Number != 1 || f.Sender != w.nodeA || len(f.Keys) != 0 {
			w.Errorf("announced %+v", f)
		}
		w.put("a\x00b", value("v"))
		if f := next(); f.Number != 2 || f.Sender != w.nodeA || !slices.Equal(f.Keys, []string{"a\x00b"}) {
			w.Errorf("put told %+v", f)
		}
		w.invalidate("x")
		if f := next(); f.Number != 3 || f.Sender != w.nodeA || !slices.Equal(f.Keys, []string{"x"}) {
			w.Errorf("invalidate told %+v", f)
		}
		if err := w.b.Put(ctx, "y", value("v")); err != nil {
			w.Error(err)
		}
		if f := next(); f.Number != 1 || f.Sender == w.nodeA {
			w.Errorf("the other node told %+v", f)
		}
	}},
	{"an invalidation of 1,025 keys is cut to frames", func(w *world) {
		var keys []string
		for i := range 1025 {
			keys = append(keys, fmt.Sprint(i))
		}
		for _, i := range []int{0, 511, 512, 1023, 1024} {
			w.put(keys[i], value("v"))
		}
		next := w.hear()
		if errs := w.a.Invalidate(ctx, keys, 0); len(errs) != len(keys) || slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
			w.Fatalf("%d errors: %v", len(errs), errs[0])
		}
		if n, _ := w.do("DBSIZE").AsInt64(); n != 0 {
			w.Errorf("%d keys left", n)
		}
		want := []int{512, 512, 1}
		if w.client.conn.Load().cluster {
			want = slices.Repeat([]int{1}, 1025)
		}
		seen := map[string]bool{}
		numbers := map[uint64]bool{}
		for _, n := range want {
			f := next()
			numbers[f.Number] = true
			if len(f.Keys) != n {
				w.Fatalf("a frame of %d keys, want %d", len(f.Keys), n)
			}
			for _, key := range f.Keys {
				seen[key] = true
			}
		}
		if len(seen) != 1025 || len(numbers) != len(want) {
			w.Errorf("%d keys told under %d numbers", len(seen), len(numbers))
		}
	}},
	{"the scripts write what package entry would", func(w *world) { sameBytes(w) }},
	{"probe runs a script", func(w *world) {
		if err := w.client.Probe(ctx); err != nil {
			w.Error(err)
		}
	}},
}

// foreign are contents that nobody can read as an entry.
func foreign() map[string]string {
	whole, err := entry.Encode(entry.Entry{State: entry.Value, Until: entry.Never})
	if err != nil {
		panic(err)
	}
	set := func(at int, with string) string { return whole[:at] + with + whole[at+len(with):] }
	return map[string]string{
		"empty":           "",
		"text":            "hello",
		"magic alone":     "\xff\xcc",
		"magic, format":   "\xff\xcc1",
		"older format":    set(2, "0"),
		"cut header":      whole[:entry.HeaderSize-1],
		"unknown state":   set(3, "Z"),
		"letters as time": set(43, "whenever, later"),
		"hexadecimal":     set(43, "0x1fffffffffffff"[:15]),
		"no number":       set(28, "            nan            nan"),
		"endless lease":   set(3, "L")[:28] + "000000000000000            inf" + whole[58:],
		"blank in a time": set(3, "L")[:28] + "              0 99999999999999" + whole[58:],
		"version of text": set(123, "not a number at all!"),
		"a digest":        set(169, "\x20"),
		"4 KiB of 0xff":   strings.Repeat("\xff", 4096),
	}
}

func oddKeys() []string {
	return []string{"", "}", "{", "{}", "{}x", "{x}1", "{x}2", "x", "\x00", "a\x00b", "a/b", "a%2Fb", "../x", "..", ":", "n:k", " ",
		"\r\n", "*", "é", "e\u0301", "\xff", strings.Repeat("\xff", 4096)}
}

// states lays one key in each state and returns the token that is on it, if
// one is.
func (w *world) states() map[string]entry.Token {
	w.Helper()
	w.put("value", value("v"))
	w.put("negative", Fill{State: entry.Negative, TTL: time.Hour})
	w.put("refreshing", value("v"))
	w.do("SET", prefix+"text", "text")
	w.do("SET", prefix+"newer", "\xff\xcc2newer")
	w.do("RPUSH", prefix+"list", "x")
	w.do("HSET", prefix+"hash", "x", "y")
	none := w.a.tokens.Next()
	return map[string]entry.Token{"absent": none, "value": none, "negative": none, "text": none, "newer": none, "list": none, "hash": none,
		"lease":      w.lease(w.a, "lease"),
		"refreshing": w.read(w.a, "refreshing", Ask{RefreshWindow: 2 * time.Hour, LeaseTTL: time.Minute}).Token}
}

func overwrite(w *world) {
	for _, f := range []Fill{
		{State: entry.Value, TTL: 2 * time.Hour, Version: 5, Body: entry.Body{Payload: "new"}},
		{State: entry.Negative, TTL: 2 * time.Hour},
	} {
		w.do("FLUSHALL")
		for name, token := range w.states() {
			w.put(name, f)
			w.life(name, 2*time.Hour)
			if w.fill(w.a, name, token, value("old")) {
				w.Errorf("%s: the token still fills", name)
			}
			if e := w.entry(name); e.State != f.State || e.Body != f.Body || e.Version != f.Version || e.Token != (entry.Token{}) {
				w.Errorf("%s: holds %+v", name, e)
			}
		}
	}
}

func refreshOnce(w *world) {
	for _, state := range []entry.State{entry.Value, entry.Negative} {
		ask := Ask{RefreshWindow: 2 * time.Hour, LeaseTTL: 10 * time.Minute}
		f := Fill{State: state, TTL: time.Hour}
		w.put("k", f)
		first := w.read(w.a, "k", ask)
		if first.Kind != Hit || !first.Granted() {
			w.Fatalf("reads %+v", first)
		}
		w.life("k", time.Hour)
		if e := w.entry("k"); e.Token != first.Token || e.IssuedAt == 0 {
			w.Errorf("holds %+v", e)
		}
		if w.read(w.b, "k", ask).Granted() || w.read(w.a, "k", ask).Granted() {
			w.Error("granted while it is held")
		}
		w.release(w.b, "k", w.b.tokens.Next())
		if w.read(w.b, "k", ask).Granted() {
			w.Error("cleared by a stranger's release")
		}
		w.release(w.a, "k", first.Token)
		w.life("k", time.Hour)
		if e := w.entry("k"); e.Token != (entry.Token{}) || e.IssuedAt != 0 {
			w.Errorf("after the release: %+v", e)
		}
		second := w.read(w.b, "k", ask)
		if !second.Granted() {
			w.Fatal("not granted after the release")
		}
		if w.fill(w.a, "k", first.Token, f) {
			w.Error("the released token filled")
		}
		f.TTL = 3 * time.Hour
		if !w.fill(w.b, "k", second.Token, f) {
			w.Error("the refresh was refused")
		}
		w.life("k", 3*time.Hour)
		if e := w.entry("k"); e.Token != (entry.Token{}) || e.State != state {
			w.Errorf("after the fill: %+v", e)
		}
		ask.RefreshWindow = 4 * time.Hour
		if !w.read(w.a, "k", ask).Granted() {
			w.Error("not granted after the fill")
		}
	}
}

func sameBytes(w *world) {
	same := func(writer string, want entry.Entry) {
		w.Helper()
		got := w.entry("k")
		want.WriteID, want.IssuedAt, want.Until = got.WriteID, got.IssuedAt, got.Until
		if !reflect.DeepEqual(got, want) {
			w.Errorf("%s: %+v, want %+v", writer, got, want)
		}
		if s, err := entry.Encode(want); err != nil || s != w.bytes("k") {
			w.Errorf("%s wrote\n%q, want\n%q", writer, w.bytes("k"), s)
		}
	}
	f := Fill{State: entry.Value, TTL: time.Hour, Version: 7, Body: entry.Body{Codec: 3, ContentType: "a/b", Payload: "\x00\xff"}}
	stored := entry.Entry{State: entry.Value, Version: 7, Body: f.Body}
	w.put("k", f)
	same("put", stored)
	w.do("DEL", prefix+"k")
	token := w.lease(w.a, "k")
	same("read", entry.Entry{State: entry.Lease, Token: token})
	w.fill(w.a, "k", token, f)
	same("fill", stored)
	r := w.read(w.a, "k", Ask{RefreshWindow: 2 * time.Hour, LeaseTTL: time.Minute})
	stored.Token = r.Token
	same("read for a refresh", stored)
	w.release(w.a, "k", r.Token)
	stored.Token = entry.Token{}
	same("release", stored)
	f.TTL = policy.Forever
	w.put("k", f)
	same("put forever", stored)
	if until := w.entry("k").Until; until != entry.Never {
		w.Errorf("forever ends at %d", until)
	}
	w.do("SET", prefix+"k", "x")
	token, _, err := w.a.Reclaim(ctx, "k", "x", time.Minute)
	if err != nil {
		w.Fatal(err)
	}
	same("reclaim", entry.Entry{State: entry.Lease, Token: token})
	w.put("k", Fill{State: entry.Negative, TTL: time.Hour})
	same("put of nothing", entry.Entry{State: entry.Negative})
}

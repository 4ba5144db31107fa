package conformance

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/cocache/cocache/host/admin"
	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/policy"
	"github.com/cocache/cocache/tests/wire"
)

// Failure handling (H).
var failures = []claim{
	{"H1", "without Redis a reader gets what the loader says, kept by this process alone and for a short while", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v")
		for n, i := range []*instance{a, b} {
			i.away()
			if found := i.get("k"); found.Degraded != cache.RedisDown || found.TTL != 0 || found.LocalTTL <= 0 || found.LocalTTL > 10*time.Second {
				w.Fatalf("answered %+v", found)
			}
			if found := i.get("k"); found.Source != cache.FromL2 || found.TTL != 0 {
				w.Fatalf("then %+v", found)
			}
			if loads := w.source.count("k"); loads != n+1 {
				w.Fatalf("%d loads", loads)
			}
		}
		a.back()
		b.back()
		w.moment()
		w.wantHeld("k", "")
	}, everywhere},

	{"H2 H28", "with read-failure: error a reader is told that Redis cannot be read, and nobody loads", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.ReadFailure = policy.Error }))
		a.away()
		a.wantUnreadable("k")
		if n := w.source.count("k"); n != 0 {
			w.Fatalf("%d loads", n)
		}
	}, everywhere},

	{"H3 H4", "without a loader a key that cannot be read is an error or absent, as configured, and never remembered as absent", func(w *world) {
		external := func(o *options) { o.Loader = nil }
		a := w.instance(external)
		b := w.instance(external, with(func(p *policy.Policy) { p.UnknownRead = policy.AbsentUnknown }))
		a.put("k", "v")
		a.away()
		b.away()
		a.wantUnreadable("k")
		b.want("k", "absent")
		a.back()
		b.back()
		a.want("k", "v")
		b.want("k", "v")
	}, everywhere},

	{"H5", "a fill or release that fails costs its caller nothing; it is counted and logged", func(w *world) {
		broken := errors.New("broken")
		for fault, happens := range map[string]func(*instance){
			"no connection": (*instance).sever,
			"no answer":     func(i *instance) { i.wire.Mute(wire.Commands, true) },
		} {
			a := w.instance(func(o *options) { o.commandTimeout = 300 * time.Millisecond })
			good, bad := "good "+fault, "bad "+fault
			w.source.set(good, "v")
			w.source.fail(bad, broken)
			loads := []*hold{w.hold(good), w.hold(bad)}
			filling, releasing := a.begin(good), a.begin(bad)
			for _, load := range loads {
				load.wait()
			}
			happens(a)
			for _, load := range loads {
				load.release()
			}
			if found := filling.want("v"); found.StoredL1 || found.Degraded != cache.FillRefused {
				w.Fatalf("%s: %+v", fault, found)
			}
			if _, err := releasing.wait(); !errors.Is(err, broken) {
				w.Fatalf("%s: %v", fault, err)
			}
			if n := a.Stats().Fills["failed"]; n != 1 {
				w.Fatalf("%s: %d fills failed", fault, n)
			}
			for _, line := range []string{"WARN loaded value could not be stored", "WARN lease could not be released"} {
				if a.log.count(line) == 0 {
					w.Fatalf("%s: not logged: %q", fault, line)
				}
			}
		}
	}, everywhere},

	{"H6", "a fill that comes late, to a key that was invalidated and leased anew, is refused", func(w *world) {
		a, b := w.instance(func(o *options) { o.commandTimeout = 300 * time.Millisecond }), w.instance()
		w.source.set("k", "v1")
		a.connect()
		late := w.hold("k")
		slow := a.begin("k")
		late.wait()
		a.wire.Hold(wire.Commands)
		late.release()
		slow.want("v1")
		w.source.set("k", "v2")
		b.drop("k")
		load := w.hold("k")
		fresh := b.begin("k")
		load.wait()
		a.wire.Release()
		a.reaches()
		w.moment()
		w.wantHeld("k", "L")
		load.release()
		fresh.want("v2")
		w.wantHeld("k", "Vv2")
	}, everywhere},

	{"H7", "a lease whose release was lost ends by itself after lease-ttl", func(w *world) {
		lease := with(func(p *policy.Policy) { p.LeaseTTL = 500 * time.Millisecond })
		a, b := w.instance(lease), w.instance(lease)
		w.source.fail("k", errors.New("broken"))
		load := w.hold("k")
		failing := a.begin("k")
		load.wait()
		a.sever()
		load.release()
		failing.want("error")
		w.wantHeld("k", "L")
		w.source.fail("k", nil)
		w.source.set("k", "v")
		if found := b.get("k"); found.Value != "v" || !found.StoredL1 || !found.Waited {
			w.Fatalf("the next reader: %+v", found)
		}
		w.wantHeld("k", "Vv")
	}, everywhere},

	{"H8", "an invalidation that fails has dropped this instance's copy", func(w *world) {
		for _, failure := range []policy.Failure{policy.Retry, policy.Error} {
			a := w.instance(with(func(p *policy.Policy) { p.InvalidateFailure = failure }))
			w.source.set("k", "v1")
			a.drop("k")
			a.want("k", "v1")
			a.sever()
			w.source.set("k", "v2")
			a.Invalidate(ctx, "k")
			a.want("k", "v2")
		}
	}, everywhere},

	{"H9", "an invalidation while Redis is away is no error, and reaches it when it is back", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v1")
		b.want("k", "v1")
		a.away()
		w.source.set("k", "v2")
		if gone := a.InvalidateAll(ctx, []string{"k"})[0]; gone.Err != nil || !gone.Queued {
			w.Fatalf("the invalidation: %+v", gone)
		}
		b.want("k", "v1")
		a.wire.Down(nil)
		w.until("b follows", func() bool { return text(b.get("k")) == "v2" })
		if s := a.Stats(); s.Pending != 0 || s.Dropped != 0 {
			w.Fatalf("%d pending, %d dropped", s.Pending, s.Dropped)
		}
	}, everywhere},

	{"H9 H10", "while Redis refuses an invalidation, the attempts grow rarer, and reads go past it", func(w *world) {
		a := w.instance()
		w.source.set("k", "v1")
		a.want("k", "v1")
		a.connect()
		w.do("ACL", "SETUSER", "default", "-publish")
		w.source.set("k", "v2")
		a.Invalidate(ctx, "k")
		a.want("k", "v2")
		w.until("three attempts more", func() bool { return len(a.sent()) >= 4 })
		var attempts []time.Time
		for _, c := range a.wire.Sent() {
			if c.Is("EVALSHA") {
				attempts = append(attempts, c.At)
			}
		}
		for n, pause := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
			if took := attempts[n+1].Sub(attempts[n]); took < pause {
				w.Fatalf("attempt %d came %v after the one before", n+2, took)
			}
		}
		w.wantHeld("k", "Vv1")
	}, realRedis},

	{"H10", "until a failed invalidation has succeeded its instance reads the key past L1, then drops what it read so", func(w *world) {
		a := w.instance(func(o *options) { o.Loader, o.Policy.Local.DegradedMaxAge = inBatches{w.source}, time.Hour })
		w.source.set("k", "v1")
		a.want("k", "v1")
		a.connect()
		a.wire.Hold(wire.Commands)
		a.pend("k")
		w.source.set("k", "v2")
		if found := a.get("k"); found.Value != "v2" || found.Degraded != cache.PendingInvalidation || found.TTL != 0 {
			w.Fatalf("a read: %+v", found)
		}
		a.ClearLocal()
		if item := a.GetAll(ctx, []string{"k"})[0]; item.Lookup.Value != "v2" || item.Lookup.Degraded != cache.PendingInvalidation {
			w.Fatalf("a batch: %+v", item)
		}
		w.wantHeld("k", "Vv1")
		a.wire.Release()
		w.until("it is made good", func() bool { return a.Stats().Pending == 0 })
		w.until("the degraded copy goes", func() bool { return a.get("k").Source != cache.FromL2 })
		w.wantHeld("k", "Vv2")
	}, everywhere},

	{"H1 H10", "batches that are read past L1 say nothing about Redis: other keys are still read through it", func(w *world) {
		a := w.instance(func(o *options) { o.Loader = inBatches{w.source} })
		w.source.set("k", "v")
		w.source.set("other", "v")
		a.connect()
		a.wire.Hold(wire.Commands)
		a.pend("k")
		for range 5 {
			a.ClearLocal()
			if item := a.GetAll(ctx, []string{"k"})[0]; item.Lookup.Degraded != cache.PendingInvalidation {
				w.Fatalf("a batch: %+v", item)
			}
		}
		a.wire.Release()
		if found := a.get("other"); !found.StoredL1 {
			w.Fatalf("another key: %+v", found)
		}
	}, everywhere},

	{"H11", "an invalidation that is given up is counted, and logged as an error", func(w *world) {
		a := w.instance()
		a.away()
		a.Invalidate(ctx, "k")
		a.close()
		if n := a.Stats().Dropped; n != 1 {
			w.Fatalf("%d dropped", n)
		}
		if n := a.log.count("ERROR invalidations dropped"); n != 1 {
			w.Fatalf("logged %d times", n)
		}
	}, everywhere},

	{"H9 H11", "an invalidation that fails once the cache is closed does not count as waiting", func(w *world) {
		a := w.instance()
		a.away()
		a.Invalidate(ctx, "k")
		a.close()
		if gone := a.InvalidateAll(ctx, []string{"late"})[0]; gone.Queued || gone.Err == nil {
			w.Fatalf("the invalidation: %+v", gone)
		}
		if n := a.Stats().Dropped; n != 2 {
			w.Fatalf("%d dropped", n)
		}
	}, everywhere},

	{"H12", "at most 10,000 failed invalidations wait; one more is an error, and dropped", func(w *world) {
		a := w.instance()
		a.away()
		keys := make([]string, 10_001)
		for i := range keys {
			keys[i] = fmt.Sprint(i)
		}
		var failed []error
		for _, gone := range a.InvalidateAll(ctx, keys) {
			if !gone.Queued {
				failed = append(failed, gone.Err)
			}
		}
		if len(failed) != 1 {
			w.Fatalf("%d failed", len(failed))
		}
		var err *cache.WriteError
		if s := a.Stats(); !errors.As(failed[0], &err) || s.Pending != 10_000 || s.Dropped != 1 {
			w.Fatalf("failed with %v; %d pending, %d dropped", failed[0], s.Pending, s.Dropped)
		}
		a.wire.Down(nil)
		w.until("all are made good", func() bool { return a.Stats().Pending == 0 })
	}, everywhere},

	{"H13 H28", "with invalidate-failure: error the caller is told, and nothing is tried again", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.InvalidateFailure = policy.Error }))
		a.put("k", "v")
		a.away()
		w.wantFailed(a.Invalidate(ctx, "k"), false)
		a.wire.Forget()
		a.back()
		w.longEnough()
		if sent := a.sent(); slices.Contains(sent, "invalidate") {
			w.Fatalf("sent %q", sent)
		}
		w.wantHeld("k", "Vv")
	}, everywhere},

	{"H14", "a failed invalidation is tried again without a loader, too; until then the key is unknown here", func(w *world) {
		a := w.instance(func(o *options) { o.Loader = nil })
		a.put("k", "v")
		a.away()
		if gone := a.InvalidateAll(ctx, []string{"k"})[0]; gone.Err != nil || !gone.Queued {
			w.Fatalf("the invalidation: %+v", gone)
		}
		a.wantUnreadable("k")
		a.wire.Down(nil)
		w.until("it is made good", func() bool { return a.Stats().Pending == 0 })
		a.want("k", "unpopulated")
		w.wantHeld("k", "")
	}, everywhere},

	{"H15", "a put that fails has dropped this instance's copy, and is not tried again", func(w *world) {
		a := w.instance()
		w.source.set("k", "v1")
		a.want("k", "v1")
		a.sever()
		w.source.set("k", "v2")
		w.fails(func() error { return a.Put(ctx, "k", []byte("put"), cache.PutOptions{}) })
		a.want("k", "v2")
		a.wire.Forget()
		a.back()
		w.longEnough()
		if sent := a.sent(); slices.Contains(sent, "put") {
			w.Fatalf("sent %q", sent)
		}
		w.wantHeld("k", "Vv1")
	}, everywhere},

	{"H16", "the error of a write says whether it may have been carried out: not without a connection, perhaps without an answer", func(w *world) {
		a := w.instance(func(o *options) { o.commandTimeout = 300 * time.Millisecond })
		a.connect()
		a.wire.Mute(wire.Commands, true)
		w.wantFailed(a.Put(ctx, "k", []byte("v1"), cache.PutOptions{}), true)
		w.wantHeld("k", "Vv1")
		a.wire.Mute(wire.Commands, false)
		a.away()
		w.wantFailed(a.Put(ctx, "k", []byte("v2"), cache.PutOptions{}), false)
		a.back()
		w.wantHeld("k", "Vv1")
	}, everywhere},

	{"H19", "a put whose answer was lost may be made again", func(w *world) {
		a, b := w.instance(func(o *options) { o.commandTimeout = 300 * time.Millisecond }), w.instance()
		put := func() error { return a.Put(ctx, "k", []byte("v"), cache.PutOptions{TTL: time.Minute}) }
		a.connect()
		a.wire.Mute(wire.Commands, true)
		w.wantFailed(put(), true)
		a.wire.Mute(wire.Commands, false)
		for range 2 {
			if err := put(); err != nil {
				w.Fatal(err)
			}
			w.wantHeld("k", "Vv")
			w.near("its life", w.life("k"), time.Minute)
			a.want("k", "v")
			b.want("k", "v")
		}
	}, everywhere},

	{"H20 H21", "a put that failed without a connection does not come later, over a newer value", func(w *world) {
		a, b := w.instance(), w.instance()
		a.away()
		w.wantFailed(a.Put(ctx, "k", []byte("v1"), cache.PutOptions{}), false)
		b.put("k", "v2")
		a.wire.Forget()
		a.back()
		w.longEnough()
		if sent := a.sent(); slices.Contains(sent, "put") {
			w.Fatalf("sent %q", sent)
		}
		w.wantHeld("k", "Vv2")
		a.want("k", "v2")
	}, everywhere},

	{"H22 H23", "a loader's error reaches everybody who waits for it, frees the lease at once, and is not remembered", func(w *world) {
		a, b := w.instance(), w.instance()
		broken := errors.New("broken")
		w.source.fail("k", broken)
		load := w.hold("k")
		readers := []*reading{a.begin("k"), a.begin("k"), a.begin("k")}
		load.wait()
		w.until("all wait", func() bool { return a.Stats().Waiters == 3 })
		load.release()
		for _, r := range readers {
			if _, err := r.wait(); err != broken {
				w.Fatalf("a reader was told %v", err)
			}
		}
		w.wantHeld("k", "")
		w.source.fail("k", nil)
		w.source.set("k", "v")
		b.sends("read fill", func() { b.want("k", "v") })
		a.want("k", "v")
		if n := w.source.count("k"); n != 2 {
			w.Fatalf("%d loads", n)
		}
	}, everywhere},

	{"H24", "when the holder of a lease dies others load without L1 after lease-wait, and the lease ends after lease-ttl", func(w *world) {
		lease := with(func(p *policy.Policy) { p.LeaseTTL, p.LeaseWait = 900*time.Millisecond, 100*time.Millisecond })
		a, b, c := w.instance(lease), w.instance(lease), w.instance(lease)
		w.source.set("k", "v")
		began := time.Now()
		w.hold("k")
		a.begin("k")
		w.until("a lease", func() bool { return w.holds("k") == "L" })
		a.wire.Down(errCut)
		a.wire.Cut(wire.All)
		if found := b.get("k"); found.Value != "v" || found.Degraded != cache.LeaseWait || found.StoredL1 || found.TTL != 0 {
			w.Fatalf("after lease-wait: %+v", found)
		}
		w.wantHeld("k", "L")
		w.until("the lease ends", func() bool { return w.holds("k") == "" })
		if took := time.Since(began); w.virtual && (took < 890*time.Millisecond || took > 910*time.Millisecond) {
			w.Fatalf("the lease ended after %v", took)
		}
		if found := c.get("k"); found.Value != "v" || !found.StoredL1 {
			w.Fatalf("after lease-ttl: %+v", found)
		}
	}, everywhere},

	{"H26", "a server that has forgotten the scripts is sent their source", func(w *world) {
		a := w.instance()
		w.source.set("k", "v")
		broken := errors.New("broken")
		w.source.fail("bad", broken)
		for _, c := range []struct {
			sends string
			do    func()
		}{
			{"read read fill fill", func() { a.want("k", "v") }},
			{"put put", func() { a.put("k", "v") }},
			{"invalidate invalidate", func() { a.drop("k") }},
			{"read read release release", func() { a.begin("bad").want("error") }},
		} {
			w.do("SCRIPT", "FLUSH")
			a.wire.Forget()
			c.do()
			if got := strings.Join(a.sent(), " "); got != c.sends {
				w.Fatalf("sent %q, want %q", got, c.sends)
			}
		}
	}, everywhere},

	{"H27", "a value that a failover brings back ends with its own ttl", func(w *world) {
		a := w.instance()
		w.source.set("k", "v1")
		w.source.ttl("k", 900*time.Millisecond)
		a.want("k", "v1")
		before := w.bytes("k")
		w.source.set("k", "v2")
		a.drop("k")
		w.do("SET", at("k"), before)
		a.want("k", "v1")
		time.Sleep(900 * time.Millisecond)
		a.want("k", "v2")
	}, everywhere},

	{"H28", "with no L2 a reader without Redis gets what the loader says, and nothing is kept", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.Local.Disabled = true }))
		a.away()
		for _, row := range []string{"v1", "v2"} {
			w.source.set("k", row)
			if found := a.get("k"); found.Value != row || found.LocalTTL != 0 || found.TTL != 0 {
				w.Fatalf("answered %+v", found)
			}
		}
		a.back()
		w.wantHeld("k", "")
	}, everywhere},

	{"H29", "failed fills and dropped invalidations are among the metrics", func(w *world) {
		a := w.instance()
		w.source.set("k", "v")
		load := w.hold("k")
		filling := a.begin("k")
		load.wait()
		a.sever()
		load.release()
		filling.want("v")
		a.Invalidate(ctx, "k")
		a.close()
		metrics := admin.NewMetrics("test")
		metrics.Watch("n", a.Stats)
		answer := httptest.NewRecorder()
		admin.New(admin.Options{Metrics: metrics}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for _, line := range []string{
			`cocache_fills_total{cocache_namespace="n",outcome="failed"} 1`,
			`cocache_invalidations_dropped_total{cocache_namespace="n"} 1`,
		} {
			if !strings.Contains(answer.Body.String(), line+"\n") {
				w.Fatalf("no line %s in\n%s", line, answer.Body)
			}
		}
	}, everywhere},
}

// errCut is what dialling answers on a wire that is down.
var errCut = errors.New("cut off")

// sever cuts an instance's commands off from Redis; its subscription stays.
func (i *instance) sever() {
	i.wire.Down(errCut)
	i.wire.Cut(wire.Commands)
}

// away severs an instance, and waits until it knows and sends nothing more.
func (i *instance) away() {
	i.w.Helper()
	i.sever()
	i.w.until("it knows that Redis is away", func() bool {
		i.Peek(ctx, "anything") // which keeps no copy
		return i.log.count("redis does not answer") > 0
	})
}

// back mends the wire and waits until reads go through it again.
func (i *instance) back() {
	i.w.Helper()
	i.wire.Down(nil)
	i.reaches()
}

// longEnough lets pass the time of a retry; where time is real, of an early one.
func (w *world) longEnough() {
	if w.virtual {
		time.Sleep(time.Minute)
	} else {
		time.Sleep(300 * time.Millisecond)
	}
}

// reaches waits until a command of the instance is answered.
func (i *instance) reaches() {
	i.w.Helper()
	i.w.until("Redis answers", func() bool {
		found, err := i.Peek(ctx, "nobody has this")
		return err == nil && found.Kind == cache.Unpopulated
	})
}

// fails checks that a write fails, whether or not it may have been carried out.
func (w *world) fails(write func() error) {
	w.Helper()
	var failed *cache.WriteError
	if err := write(); !errors.As(err, &failed) {
		w.Fatalf("the write ended with %v", err)
	}
}

// wantUnreadable checks that a reader is told that Redis cannot be read.
func (i *instance) wantUnreadable(key string) {
	i.w.Helper()
	found, err := i.Get(ctx, key)
	var unreadable *cache.ReadError
	if !errors.As(err, &unreadable) || found.Kind != cache.Unknown {
		i.w.Fatalf("get %q: %+v, %v", key, found, err)
	}
}

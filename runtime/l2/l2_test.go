package l2

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cocache/cocache/runtime/stamp"
)

// tier has room for plenty unless changed.
func tier(t testing.TB, o Options) *Tier {
	if o.MaxEntries == 0 {
		o.MaxEntries = 1000
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 20
	}
	tr := New(o, stamp.NewTable())
	t.Cleanup(tr.Close)
	return tr
}

// store keeps a value that lives as long as d.
func (t *Tier) store(key, value string, d time.Duration) *Copy {
	c := &Copy{Value: value, Until: t.Now().Add(d)}
	t.Store(key, t.stamps.Note(key), c)
	return c
}

func (t *Tier) value(key string) string {
	if c, _, ok := t.Get(key); ok {
		return c.Value
	}
	return "-"
}

func TestACopyLivesUntilItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := tier(t, Options{})
		tr.store("k", "v", time.Minute)
		if got := tr.value("k"); got != "v" {
			t.Errorf("at first: %q", got)
		}
		time.Sleep(time.Minute - 1)
		if got := tr.value("k"); got != "v" {
			t.Errorf("a nanosecond before its end: %q", got)
		}
		time.Sleep(1)
		if got := tr.value("k"); got != "-" {
			t.Errorf("at its end: %q", got)
		}
		tr.store("k", "again", time.Minute)
		if got := tr.value("k"); got != "again" {
			t.Errorf("stored anew: %q", got)
		}
		tr.Close()
	})
}

func TestADegradedCopyNeverReplacesALivingOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := tier(t, Options{})
		degraded := func(value string) bool {
			return tr.Store("k", tr.stamps.Note("k"), &Copy{Value: value, Degraded: true, Until: tr.Now().Add(time.Hour)})
		}
		if !degraded("first") || tr.value("k") != "first" {
			t.Error("into nothing: not stored")
		}
		if degraded("second") || tr.value("k") != "first" {
			t.Error("replaced a living degraded copy")
		}
		tr.store("k", "true", time.Minute)
		if tr.value("k") != "true" {
			t.Error("a true copy did not replace a degraded one")
		}
		if degraded("third") || tr.value("k") != "true" {
			t.Error("replaced a living copy")
		}
		time.Sleep(time.Minute)
		if !degraded("fourth") || tr.value("k") != "fourth" {
			t.Error("did not replace a dead copy")
		}
		tr.Close()
	})
}

func TestWhatRemovesACopyAndOutdatesStamps(t *testing.T) {
	for name, test := range map[string]struct {
		do            func(tr *Tier, noted stamp.Stamp)
		copy, storing bool // survive
	}{
		"nothing":       {func(*Tier, stamp.Stamp) {}, true, true},
		"invalidate":    {func(tr *Tier, _ stamp.Stamp) { tr.Invalidate("k") }, false, false},
		"reset":         {func(tr *Tier, _ stamp.Stamp) { tr.Reset() }, false, false},
		"drop":          {func(tr *Tier, noted stamp.Stamp) { tr.Drop("k", noted) }, false, true},
		"outdated drop": {func(tr *Tier, noted stamp.Stamp) { tr.stamps.Bump("k"); tr.Drop("k", noted) }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			tr := tier(t, Options{})
			tr.store("k", "v", time.Hour)
			noted := tr.stamps.Note("k")
			test.do(tr, noted)
			if got := tr.value("k") == "v"; got != test.copy {
				t.Errorf("the copy is there: %v", got)
			}
			if got := tr.Store("k", noted, &Copy{Value: "new", Until: Never}); got != test.storing {
				t.Errorf("stored under the old stamp: %v", got)
			}
		})
	}
}

// TestAStoreThatComparedBeforeTheBumpCannotOutliveInvalidate (I3): the store
// stands between its comparison and its write when the invalidation comes.
func TestAStoreThatComparedBeforeTheBumpCannotOutliveInvalidate(t *testing.T) {
	for name, invalidate := range map[string]func(*Tier){
		"Invalidate": func(tr *Tier) { tr.Invalidate("k") },
		"Reset":      func(tr *Tier) { tr.Reset() },
	} {
		t.Run(name, func(t *testing.T) {
			tr := tier(t, Options{})
			noted := tr.stamps.Note("k")
			compared, goOn := make(chan struct{}), make(chan struct{})
			var invalidated atomic.Bool
			var wg sync.WaitGroup
			wg.Go(func() {
				tr.stamps.Store(noted, func() {
					close(compared)
					<-goOn
					if invalidated.Load() {
						t.Error("the invalidation overtook a store under way")
					}
					tr.copies.Set("k", &Copy{Value: "old", Until: Never})
				})
			})
			<-compared
			invalidating := make(chan struct{})
			wg.Go(func() {
				close(invalidating)
				invalidate(tr)
				invalidated.Store(true)
				if got := tr.value("k"); got != "-" {
					t.Errorf("%q is there after the invalidation", got)
				}
			})
			<-invalidating
			for range 1000 { // let it get as far as it can
				runtime.Gosched()
			}
			close(goOn)
			wg.Wait()
			if got := tr.value("k"); got != "-" {
				t.Errorf("%q is there at the end", got)
			}
		})
	}
}

// TestNoReaderSeesWhatWasInvalidated hammers one key: whoever reads after
// Invalidate has returned finds nothing older than the row of that moment.
func TestNoReaderSeesWhatWasInvalidated(t *testing.T) {
	tr := tier(t, Options{})
	var row, floor atomic.Int64 // floor: the row at the last invalidation that returned
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				least := floor.Load()
				if c, _, ok := tr.Get("k"); ok {
					if got := int64(c.Version); got < least {
						t.Errorf("hit %d after the invalidation at %d", got, least)
						return
					}
					continue
				}
				noted := tr.stamps.Note("k")
				tr.Store("k", noted, &Copy{Version: uint64(row.Load()), Until: Never})
			}
		})
	}
	for n := int64(1); n < 3000; n++ {
		row.Store(n)
		tr.Invalidate("k")
		floor.Store(n)
	}
	close(stop)
	wg.Wait()
}

func TestBoundsHold(t *testing.T) {
	for name, test := range map[string]struct {
		o       Options
		entries int
		value   int
	}{
		"by entries, small values": {Options{MaxEntries: 100, MaxBytes: 1 << 20}, 1000, 10},
		"by bytes, large values":   {Options{MaxEntries: 1000, MaxBytes: 100_000}, 1000, 1000},
		"by bytes, over the share": {Options{MaxEntries: 100, MaxBytes: 10_000}, 500, 150},
		"one entry":                {Options{MaxEntries: 1, MaxBytes: 1000}, 50, 10},
		"fewer bytes than entries": {Options{MaxEntries: 1000, MaxBytes: 100}, 500, 10},
	} {
		t.Run(name, func(t *testing.T) {
			tr := tier(t, test.o)
			for i := range test.entries {
				tr.store(fmt.Sprintf("key%05d", i), strings.Repeat("v", test.value), time.Hour)
			}
			tr.copies.CleanUp()
			stats := tr.Stats()
			if stats.Entries > test.o.MaxEntries || stats.Bytes > test.o.MaxBytes {
				t.Errorf("%+v is over %+v", stats, test.o)
			}
			if stats.Entries == 0 || int(stats.Evicted) != test.entries-stats.Entries {
				t.Errorf("%d stored: %+v", test.entries, stats)
			}
			if want := int64(stats.Entries * (8 + test.value)); stats.Bytes != want {
				t.Errorf("%d entries of %d bytes: %d bytes", stats.Entries, 8+test.value, stats.Bytes)
			}
		})
	}
}

func TestWhatIsLargerThanTheTierIsNotKept(t *testing.T) {
	tr := tier(t, Options{MaxEntries: 10, MaxBytes: 1000})
	tr.store("small", "v", time.Hour)
	tr.store("huge", strings.Repeat("v", 2000), time.Hour)
	tr.copies.CleanUp()
	if stats := tr.Stats(); stats.Bytes > 1000 || tr.value("huge") != "-" {
		t.Errorf("%+v", stats)
	}
}

func TestBytesAreExact(t *testing.T) {
	tr := tier(t, Options{})
	check := func(after string, entries int, bytes int64) {
		t.Helper()
		tr.copies.CleanUp()
		if got := tr.Stats(); got.Entries != entries || got.Bytes != bytes {
			t.Errorf("after %s: %+v; want %d entries, %d bytes", after, got, entries, bytes)
		}
	}
	check("nothing", 0, 0)
	tr.store("key", "value", time.Hour)
	check("a value", 1, 8)
	tr.store("key", "a longer value", time.Hour)
	check("a replacement", 1, 17)
	tr.Store("key", tr.stamps.Note("key"), &Copy{Value: "v", ContentType: "text/plain", Until: Never})
	check("one with a content type", 1, 14)
	tr.Store("key", tr.stamps.Note("key"), &Copy{Kind: Absent, Until: Never})
	check("an absent one", 1, 3)
	tr.Store("key", stamp.Stamp{}, &Copy{Value: "refused", Until: Never})
	check("an outdated one", 1, 3)
	tr.Store("key", tr.stamps.Note("key"), &Copy{Value: "refused", Degraded: true, Until: Never})
	check("a degraded one", 1, 3)
	tr.store("", "", time.Hour)
	check("the empty key", 2, 3)
	tr.Drop("", tr.stamps.Note(""))
	check("a drop", 1, 3)
	tr.Invalidate("key")
	check("an invalidation", 0, 0)
	tr.Invalidate("key")
	check("another", 0, 0)
	for i := range 50 {
		tr.store(fmt.Sprint(i), "v", time.Hour)
	}
	tr.Reset()
	check("a reset", 0, 0)
	if n := tr.Stats().Evicted; n != 0 {
		t.Errorf("%d evicted for room", n)
	}
}

func TestBytesStayExactUnderConcurrency(t *testing.T) {
	tr := tier(t, Options{MaxEntries: 50, MaxBytes: 1000})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				key := fmt.Sprint((i * (w + 1)) % 100)
				switch i % 7 {
				case 0:
					tr.Invalidate(key)
				case 1:
					if i%301 == 1 {
						tr.Reset()
					}
				default:
					tr.store(key, strings.Repeat("v", i%40), time.Hour)
				}
			}
		})
	}
	wg.Wait()
	tr.copies.CleanUp()
	var sum int64
	for key, c := range tr.copies.All() {
		sum += size(key, c)
	}
	if got := tr.Stats().Bytes; got != sum || got > 1000 {
		t.Errorf("%d bytes counted, %d there", got, sum)
	}
}

func TestAHitAllocatesNothing(t *testing.T) {
	tr := tier(t, Options{})
	tr.store("k", "v", time.Hour)
	if n := testing.AllocsPerRun(1000, func() {
		if c, now, ok := tr.Get("k"); !ok || c.RefreshDue(now) {
			t.Error("no hit")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRefreshIsDueToOneCaller(t *testing.T) {
	c := &Copy{}
	if c.RefreshDue(Never) {
		t.Error("due without a point")
	}
	c.SetRefresh(100)
	if c.RefreshDue(99) {
		t.Error("due before its point")
	}
	var due atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if c.RefreshDue(100) {
				due.Add(1)
			}
		})
	}
	wg.Wait()
	if due.Load() != 1 {
		t.Errorf("due to %d callers", due.Load())
	}
	c.SetRefresh(200)
	if c.RefreshDue(199) || !c.RefreshDue(250) || c.RefreshDue(300) {
		t.Error("a point set anew is not due once")
	}
}

func TestInstantsDoNotOverflow(t *testing.T) {
	for _, test := range []struct {
		i    Instant
		d    time.Duration
		want Instant
	}{
		{0, 0, 0}, {5, 10, 15}, {5, math.MaxInt64, Never}, {Never, 1, Never}, {Never, 0, Never},
		{Never - 1, 1, Never}, {1, math.MaxInt64 - 1, Never}, {10, -4, 6},
	} {
		if got := test.i.Add(test.d); got != test.want {
			t.Errorf("%d + %d = %d, want %d", test.i, test.d, got, test.want)
		}
	}
	if got := Never.Sub(1 << 40); got != math.MaxInt64 {
		t.Errorf("Never is %d away", got)
	}
	if got := Instant(30).Sub(10); got != 20 {
		t.Errorf("30 - 10 = %d", got)
	}
}

package stamp

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

func TestStoreRunsOnlyUnderTheNewestStamp(t *testing.T) {
	for name, test := range map[string]struct {
		bump   func(table *Table)
		stored bool
	}{
		"no bump":              {func(*Table) {}, true},
		"the key was bumped":   {func(table *Table) { table.Bump("key") }, false},
		"bumped twice":         {func(table *Table) { table.Bump("key"); table.Bump("key") }, false},
		"all were bumped":      {func(table *Table) { table.BumpAll() }, false},
		"another was bumped":   {func(table *Table) { table.Bump(elsewhere(table, "key")) }, true},
		"a stripe mate bumped": {func(table *Table) { table.Bump(mate(table, "key")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			table := NewTable()
			noted := table.Note("key")
			test.bump(table)
			ran := false
			if stored := table.Store(noted, func() { ran = true }); stored != test.stored || ran != test.stored {
				t.Errorf("stored %v, ran %v; want %v", stored, ran, test.stored)
			}
			if now := table.Note("key"); noted.Before(now) == test.stored || now.Before(noted) {
				t.Errorf("noted %+v, now %+v", noted, now)
			}
		})
	}
}

// elsewhere is a key of another stripe, mate another key of the same.
func elsewhere(table *Table, key string) string {
	return find(func(other string) bool { return table.Note(other).stripe != table.Note(key).stripe })
}

func mate(table *Table, key string) string {
	return find(func(other string) bool { return table.Note(other).stripe == table.Note(key).stripe })
}

func find(is func(string) bool) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("other", i); is(key) {
			return key
		}
	}
}

func TestTheZeroStampIsTheOldest(t *testing.T) {
	table := NewTable()
	if !(Stamp{}).Before(table.Note("key")) {
		t.Error("the zero stamp is not before a noted one")
	}
	if (Stamp{}).Before(Stamp{}) {
		t.Error("a stamp is before itself")
	}
	zero := Stamp{stripe: table.Note("key").stripe}
	if table.Store(zero, func() {}) {
		t.Error("stored under the zero stamp")
	}
}

// TestBumpWaitsForTheStoreUnderWay (I3): when Bump returns no store that
// compared before it is still running.
func TestBumpWaitsForTheStoreUnderWay(t *testing.T) {
	for name, bump := range map[string]func(*Table){
		"Bump":    func(table *Table) { table.Bump("key") },
		"BumpAll": func(table *Table) { table.BumpAll() },
	} {
		t.Run(name, func(t *testing.T) {
			table := NewTable()
			noted := table.Note("key")
			storing, finish := make(chan struct{}), make(chan struct{})
			var stored atomic.Bool
			var wg sync.WaitGroup
			wg.Go(func() {
				table.Store(noted, func() {
					close(storing)
					<-finish
					stored.Store(true)
				})
			})
			<-storing
			bumping := make(chan struct{})
			wg.Go(func() {
				close(bumping)
				bump(table)
				if !stored.Load() {
					t.Error("the bump returned while a store ran")
				}
			})
			<-bumping
			for range 1000 { // let the bump return if it can
				runtime.Gosched()
			}
			close(finish)
			wg.Wait()
			if table.Store(noted, func() {}) {
				t.Error("stored under the old stamp")
			}
		})
	}
}

// TestNothingStoredBeforeABumpAppearsAfterIt: readers store what they read
// under the stamp noted first; after a writer's bump and evict nobody may see
// what was there before.
func TestNothingStoredBeforeABumpAppearsAfterIt(t *testing.T) {
	const writes, readers = 2000, 3
	table := NewTable()
	var source, kept atomic.Int64 // kept: 0 is nothing
	source.Store(1)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				noted := table.Note("key")
				read := source.Load()
				table.Store(noted, func() { kept.Store(read) })
			}
		})
	}
	for n := int64(2); n < writes; n++ {
		source.Store(n)
		table.Bump("key")
		kept.CompareAndSwap(kept.Load(), 0)
		if now := kept.Load(); now != 0 && now < n {
			t.Errorf("read %d after the invalidation of %d", now, n-1)
			break
		}
	}
	close(stop)
	wg.Wait()
}

// TestStripesAreUsedEvenly: 3 × 4,096 keys leave about e⁻³ of the stripes
// empty; far more would make strangers drop each other's copies.
func TestStripesAreUsedEvenly(t *testing.T) {
	table := NewTable()
	used := map[uint32]int{}
	for i := range 3 * Stripes {
		used[table.Note(fmt.Sprint("user:", i)).stripe]++
	}
	if len(used) < Stripes*9/10 {
		t.Errorf("%d of %d stripes used", len(used), Stripes)
	}
	for stripe, keys := range used {
		if keys > 20 {
			t.Errorf("%d keys in stripe %d", keys, stripe)
		}
	}
}

func TestStripesDifferFromTableToTable(t *testing.T) {
	a, b := NewTable(), NewTable()
	for i := range 100 {
		if key := fmt.Sprint(i); a.Note(key).stripe != b.Note(key).stripe {
			return
		}
	}
	t.Error("two tables hash alike: the hash has no secret of its own")
}

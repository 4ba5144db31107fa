package flight

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/cocache/cocache/runtime/stamp"
)

type group = Group[string]

func open(t *testing.T, ch <-chan struct{}) bool {
	t.Helper()
	select {
	case <-ch:
		return false
	default:
		return true
	}
}

// A reader that asks for a flight after another one leads its own, and later readers
// join that.
func TestOnlyLaterFlights(t *testing.T) {
	var g group
	old, _ := g.Join(context.Background(), "k", stamp.Stamp{}, 0)
	now := Now()
	young, seat := g.Join(context.Background(), "k", stamp.Stamp{}, now)
	if young == old || !seat.Leads {
		t.Error("joined an earlier flight")
	}
	for _, after := range []Serial{now, 0} {
		if f, seat := g.Join(context.Background(), "k", stamp.Stamp{}, after); f != young || seat.Leads {
			t.Errorf("after %d: did not join the later flight", after)
		}
	}
}

// TestWhoMayJoin (I9).
func TestWhoMayJoin(t *testing.T) {
	table := stamp.NewTable()
	old := table.Note("k")
	table.Bump("k")
	mid := table.Note("k")
	table.Bump("k")
	young := table.Note("k")
	for name, test := range map[string]struct {
		stamp *stamp.Stamp // of the flight; nil: none taken yet
		begin bool
		noted stamp.Stamp // by the reader
		joins bool
	}{
		"no stamp yet":         {nil, false, young, true},
		"stamp as noted":       {&mid, false, mid, true},
		"stamp newer":          {&young, false, mid, true},
		"stamp older":          {&old, false, mid, false},
		"begun, as noted":      {&mid, true, mid, true},
		"begun, stamp newer":   {&young, true, old, true},
		"begun, stamp older":   {&mid, true, young, false},
		"stamp older by two":   {&old, false, young, false},
		"reader knows nothing": {&old, false, stamp.Stamp{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var g group
			f, seat := g.Join(context.Background(), "k", old, 0)
			if !seat.Leads {
				t.Fatal("the first does not lead")
			}
			if test.stamp != nil {
				g.Stamped(f, *test.stamp)
			}
			if test.begin && !g.Begin(f) {
				t.Fatal("cannot begin")
			}
			other, seat := g.Join(context.Background(), "k", test.noted, 0)
			if joined := other == f; joined != test.joins || seat.Leads == test.joins {
				t.Errorf("joined %v, leads %v; want joined %v", joined, seat.Leads, test.joins)
			}
			if g.Len() != 1 {
				t.Errorf("%d flights registered", g.Len())
			}
			if f.Context().Err() != nil {
				t.Error("the first flight was cancelled")
			}
		})
	}
}

func TestKeysHaveFlightsOfTheirOwn(t *testing.T) {
	var g group
	a, _ := g.Join(context.Background(), "a", stamp.Stamp{}, 0)
	b, seat := g.Join(context.Background(), "b", stamp.Stamp{}, 0)
	if a == b || !seat.Leads || g.Len() != 2 {
		t.Errorf("same %v, leads %v, %d registered", a == b, seat.Leads, g.Len())
	}
}

// replaced is an outdated flight with a caller besides its leader, and the
// one that took its place.
func replaced(g *group) (old, young *Flight[string]) {
	table := stamp.NewTable()
	noted := table.Note("k")
	old, _ = g.Join(context.Background(), "k", noted, 0)
	g.Join(context.Background(), "k", noted, 0)
	g.Stamped(old, noted)
	table.Bump("k")
	young, _ = g.Join(context.Background(), "k", table.Note("k"), 0)
	return old, young
}

func TestAReplacedFlightKeepsItsCallersAndRemovesNobodyElse(t *testing.T) {
	for name, end := range map[string]func(g *group, old *Flight[string]){
		"finish":  func(g *group, old *Flight[string]) { g.Finish(old, "old") },
		"overdue": func(g *group, old *Flight[string]) { g.Overdue(old) },
		"leave":   func(g *group, old *Flight[string]) { g.Leave(old); g.Leave(old) },
	} {
		t.Run(name, func(t *testing.T) {
			var g group
			old, young := replaced(&g)
			if old == young {
				t.Fatal("not replaced")
			}
			end(&g, old)
			if f, seat := g.Join(context.Background(), "k", stamp.Stamp{}, 0); f != young || seat.Leads {
				t.Error("the newer flight left the register")
			}
			if young.Context().Err() != nil || !open(t, young.Done()) || !open(t, young.Overdue()) {
				t.Error("the newer flight was ended")
			}
		})
	}
	t.Run("result", func(t *testing.T) {
		var g group
		old, young := replaced(&g)
		g.Finish(young, "young")
		g.Finish(old, "old")
		if old.Result() != "old" || young.Result() != "young" {
			t.Errorf("old brought %q, young %q", old.Result(), young.Result())
		}
	})
}

func TestFinishLeavesTheRegisterBeforeItPublishes(t *testing.T) {
	for range 2000 {
		var g group
		f, _ := g.Join(context.Background(), "k", stamp.Stamp{}, 0)
		var ready, done sync.WaitGroup
		ready.Add(2)
		done.Go(func() {
			ready.Done()
			for open(t, f.Done()) {
				runtime.Gosched()
			}
			if n := g.Len(); n != 0 || f.Result() != "result" {
				t.Errorf("published %q with %d registered", f.Result(), n)
			}
		})
		done.Go(func() {
			ready.Done()
			for f.Context().Err() == nil {
				runtime.Gosched()
			}
			if open(t, f.Done()) {
				t.Error("cancelled before it published")
			}
		})
		ready.Wait()
		g.Finish(f, "result")
		done.Wait()
	}
}

func TestTheLastToLeaveCancelsUnlessTheLoaderBegan(t *testing.T) {
	for name, test := range map[string]struct {
		before    func(g *group, f *Flight[string])
		callers   int
		leave     int
		cancelled bool
	}{
		"registered":          {func(*group, *Flight[string]) {}, 1, 1, true},
		"stamped":             {func(g *group, f *Flight[string]) { g.Stamped(f, stamp.Stamp{}) }, 1, 1, true},
		"begun":               {func(g *group, f *Flight[string]) { g.Begin(f) }, 1, 1, false},
		"one of two":          {func(*group, *Flight[string]) {}, 2, 1, false},
		"both of two":         {func(*group, *Flight[string]) {}, 2, 2, true},
		"both of two, begun":  {func(g *group, f *Flight[string]) { g.Begin(f) }, 2, 2, false},
		"a hundred":           {func(*group, *Flight[string]) {}, 100, 100, true},
		"all but the leader":  {func(*group, *Flight[string]) {}, 100, 99, false},
		"the leader and more": {func(g *group, f *Flight[string]) { g.Stamped(f, stamp.Stamp{}) }, 3, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			var g group
			f, _ := g.Join(context.Background(), "k", stamp.Stamp{}, 0)
			for range test.callers - 1 {
				g.Join(context.Background(), "k", stamp.Stamp{}, 0)
			}
			test.before(&g, f)
			for range test.leave {
				g.Leave(f)
			}
			if cancelled := f.Context().Err() != nil; cancelled != test.cancelled {
				t.Errorf("cancelled %v, want %v", cancelled, test.cancelled)
			}
			if registered := g.Len() == 1; registered == test.cancelled {
				t.Errorf("registered %v", registered)
			}
			if test.cancelled {
				if cause := context.Cause(f.Context()); !errors.Is(cause, ErrAbandoned) {
					t.Errorf("cause: %v", cause)
				}
				if g.Begin(f) {
					t.Error("an abandoned flight begins its loader")
				}
				if other, seat := g.Join(context.Background(), "k", stamp.Stamp{}, 0); other == f || !seat.Leads {
					t.Error("joined a dying flight")
				}
			}
		})
	}
}

func TestOverdueLeavesTheRegisterAndTellsItsCallers(t *testing.T) {
	var g group
	f, _ := g.Join(context.Background(), "k", stamp.Stamp{}, 0)
	g.Begin(f)
	g.Overdue(f)
	if g.Len() != 0 || open(t, f.Overdue()) {
		t.Error("registered, or its callers do not know")
	}
	if !open(t, f.Done()) || f.Context().Err() != nil {
		t.Error("an overdue flight ended by itself")
	}
	if other, seat := g.Join(context.Background(), "k", stamp.Stamp{}, 0); other == f || !seat.Leads {
		t.Error("joined an overdue flight")
	}
	g.Finish(f, "late")
	if g.Len() != 1 || open(t, f.Done()) {
		t.Error("what it brought late took the new flight away, or was not published")
	}
}

func TestAFlightHasItsLeadersValuesButNotItsCancellation(t *testing.T) {
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "leader"))
	var g group
	f, _ := g.Join(ctx, "k", stamp.Stamp{}, 0)
	g.Join(context.WithValue(context.Background(), key{}, "waiter"), "k", stamp.Stamp{}, 0)
	cancel()
	if f.Context().Err() != nil || f.Context().Value(key{}) != "leader" {
		t.Errorf("%v, value %v", f.Context().Err(), f.Context().Value(key{}))
	}
}

// TestEveryCallerIsServedOnce under concurrency: each join is of a flight that
// ends, and the register is empty at the end.
func TestEveryCallerIsServedOnce(t *testing.T) {
	var g group
	table := stamp.NewTable()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 500 {
				key := fmt.Sprint(i % 3)
				f, seat := g.Join(context.Background(), key, table.Note(key), 0)
				if seat.Leads {
					g.Stamped(f, table.Note(key))
					if g.Begin(f) {
						g.Finish(f, key)
					}
				}
				if i%50 == w {
					table.Bump(key)
				}
				<-f.Done()
				if f.Result() != key {
					t.Errorf("%q brought %q", key, f.Result())
				}
				g.Leave(f)
			}
		})
	}
	wg.Wait()
	if g.Len() != 0 {
		t.Errorf("%d flights left", g.Len())
	}
}

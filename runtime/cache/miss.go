package cache

import (
	"context"
	"errors"

	"github.com/cocache/cocache/runtime/flight"
	"github.com/cocache/cocache/runtime/loader"
)

// result is what a flight publishes, or offers its waiters before.
type result struct {
	found Lookup
	err   error
	ask   int // the question that brought a stale answer
}

// wish is what a reader of a miss brings along.
type wish struct {
	own   loader.Loader // its own loader; nil: the namespace's
	fresh bool          // it takes no stale value
}

// miss joins or leads the key's flight (step 2) and waits for it. It goes on
// until the answer suits: a reader with its own loader takes none from readers
// who had no loader, and a reader who wants no stale value, or came too late
// for it, takes none.
func (c *Cache) miss(ctx context.Context, key string, w wish) (Lookup, error) {
	if err := c.checkKey(key); err != nil {
		return Lookup{}, err
	}
	if loading(ctx, c, key) {
		return Lookup{}, ErrRecursion
	}
	for {
		f, seat := c.flights.Join(ctx, key, c.stamps.Note(key), begun(ctx))
		if seat.Leads && !c.start(func() { c.fly(f, w) }) {
			c.flights.Finish(f, result{err: ErrClosed})
		}
		r := c.wait(ctx, f, seat, w)
		if seat.Leads || !(w.own != nil && nothingKnown(r.found, r.err)) && c.suits(r, seat, w) {
			return r.found, r.err
		}
	}
}

// suits reports whether the caller may take the answer as far as it is stale.
func (c *Cache) suits(r result, seat flight.Seat, w wish) bool {
	return r.found.Source != FromStale || !w.fresh && seat.Came(r.ask)
}

// nothingKnown: the answer of a read that had no loader.
func nothingKnown(found Lookup, err error) bool {
	var unreadable *ReadError
	return errors.As(err, &unreadable) || err == nil && found.Source == FromNone
}

// wait is a caller's part in a flight: until it publishes or offers what the
// caller takes, is overdue, or the caller's own context ends.
func (c *Cache) wait(ctx context.Context, f *flight.Flight[result], seat flight.Seat, w wish) result {
	defer c.flights.Leave(f)
	c.counts.waiters.Add(1)
	defer c.counts.waiters.Add(-1)
	offered, overdue := f.Offered(), f.Overdue()
	if seat.Leads {
		offered, overdue = nil, nil // the leader loads, however long it takes
	}
	for {
		var r result
		select {
		case <-f.Done():
			if r = f.Result(); !seat.Leads && f.WasOverdue() { // what came late is its leader's alone
				r = result{err: &LoadTimeoutError{c.policy.Loads.Timeout}}
			}
		case <-offered:
			if r = f.Offer().Result; !c.suits(r, seat, w) {
				offered = nil
				continue
			}
		case <-overdue:
			return result{err: &LoadTimeoutError{c.policy.Loads.Timeout}}
		case <-ctx.Done():
			return result{err: context.Cause(ctx)}
		}
		r.found.Joined = !seat.Leads
		return r
	}
}

// fly leads a flight and publishes its result once it is off the register.
func (c *Cache) fly(f *flight.Flight[result], w wish) {
	r := c.readFor(f)
	if w.own != nil {
		r.source = w.own
	}
	r.wish = w
	found, err := r.through()
	c.flights.Finish(f, result{found, err, r.asked})
}

// readFor takes the stamp that serves the whole flight (step 3).
func (c *Cache) readFor(f *flight.Flight[result]) read {
	noted := c.stamps.Note(f.Key)
	c.flights.Stamped(f, noted)
	return read{Cache: c, source: c.loader, ctx: f.Context(), key: f.Key, noted: noted,
		begin:   func() bool { return c.flights.Begin(f) },
		overdue: func() { c.flights.Overdue(f) },
		askNext: func() int { return c.flights.Ask(f) },
		offer:   func(o flight.Offer[result]) { c.flights.Offer(f, o) },
	}
}

// chain is the load under way in a context, and the one that asked for it.
type chain struct {
	cache *Cache
	keys  []string
	began flight.Serial // no flight before it knows what the load may have to know
	outer *chain
}

type chainKey struct{}

// loading reports whether ctx belongs to a load of the key.
func loading(ctx context.Context, c *Cache, key string) bool {
	link, _ := ctx.Value(chainKey{}).(*chain)
	for ; link != nil; link = link.outer {
		if link.cache != c {
			continue
		}
		for _, k := range link.keys {
			if k == key {
				return true
			}
		}
	}
	return false
}

// loadingAny reports whether ctx belongs to any load: what goes into a fresh value
// must not be older than its load, so it is no copy, no stale value and no answer of
// a flight that began before.
func loadingAny(ctx context.Context) bool { return ctx.Value(chainKey{}) != nil }

// begun is the last flight before the load that ctx belongs to, 0 outside one.
func begun(ctx context.Context) flight.Serial {
	if link, ok := ctx.Value(chainKey{}).(*chain); ok {
		return link.began
	}
	return 0
}

// withLoading marks ctx as the load of keys.
func withLoading(ctx context.Context, c *Cache, keys ...string) context.Context {
	outer, _ := ctx.Value(chainKey{}).(*chain)
	return context.WithValue(ctx, chainKey{}, &chain{c, keys, flight.Now(), outer})
}

package cache

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/flight"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/l2"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/runtime/policy"
)

// Item is one key's part of GetAll.
type Item struct {
	Lookup Lookup
	Err    error // as of Get
}

// GetAll reads keys together: one look into L2 per key, one round trip to L1,
// one call of a loader that has a batch, one round trip of fills. A key that
// fails fails alone. The answer has one Item per key, in their order; a key
// named twice is read once.
func (c *Cache) GetAll(ctx context.Context, keys []string) []Item {
	began := time.Now()
	items := make([]Item, len(keys))
	first := make(map[string]int, len(keys))
	var misses []int
	inLoad := loadingAny(ctx)
	for i, key := range keys {
		if _, again := first[key]; again {
			continue
		}
		first[key] = i
		found, ok := Lookup{}, false
		if !inLoad {
			found, ok = c.local(key)
		}
		if !ok {
			misses = append(misses, i)
			continue
		}
		c.counts.read(found)
		items[i].Lookup = found
	}
	c.missAll(ctx, keys, misses, items)
	for _, i := range misses {
		c.finish(began, items[i].Lookup, items[i].Err)
	}
	for i, key := range keys {
		items[i] = items[first[key]]
	}
	return items
}

// missAll joins or leads a flight for each key that L2 does not have, sends
// off those it leads as one, and waits for all of them. The led ones fly on
// their own, so two batches that lead each other's keys cannot wait in a
// circle.
func (c *Cache) missAll(ctx context.Context, keys []string, misses []int, items []Item) {
	flights := make([]*flight.Flight[result], len(misses))
	var led []*flight.Flight[result]
	seats := make([]flight.Seat, len(misses))
	for j, i := range misses {
		key := keys[i]
		if err := c.checkKey(key); err != nil {
			items[i].Err = err
			continue
		}
		if loading(ctx, c, key) {
			items[i].Err = ErrRecursion
			continue
		}
		flights[j], seats[j] = c.flights.Join(ctx, key, c.stamps.Note(key), begun(ctx))
		if seats[j].Leads {
			led = append(led, flights[j])
		}
	}
	if len(led) > 0 && !c.start(func() { c.flyAll(led) }) {
		for _, f := range led {
			c.flights.Finish(f, result{err: ErrClosed})
		}
	}
	for j, i := range misses {
		if flights[j] == nil {
			continue
		}
		r := c.wait(ctx, flights[j], seats[j], wish{fresh: true})
		if !c.suits(r, seats[j], wish{fresh: true}) { // that flight took a stale value: a batch takes none
			r.found, r.err = c.miss(ctx, keys[i], wish{fresh: true})
		}
		items[i].Lookup, items[i].Err = r.found, r.err
	}
}

// lead is one key that a batch leads: its flight, and the token to fill it
// with or the reason why it has none.
type lead struct {
	read
	flight *flight.Flight[result]
	token  entry.Token
	reason Reason
	value  loaded // what the loader brought, or why it brought nothing
	err    error
}

func (l *lead) finish(found Lookup, err error) {
	l.flights.Finish(l.flight, result{found: found, err: err})
}

// flyAll leads the flights of a batch: stamps after the last registration and
// before the read, then one read of L1, then one load of what is missing.
func (c *Cache) flyAll(flights []*flight.Flight[result]) {
	ctx := context.WithoutCancel(flights[0].Context()) // one caller led them all
	var leads, missing []*lead
	var keys []string
	for _, f := range flights {
		l := &lead{flight: f, read: c.readFor(f)}
		l.wish.fresh = true
		switch {
		case c.pending.Find(f.Key) == nil:
			leads, keys = append(leads, l), append(keys, f.Key)
		case c.loader == nil:
			l.finish(c.unknown(errPending))
		default:
			l.reason = PendingInvalidation
			missing = append(missing, l)
		}
	}
	sent := c.l2.Now()
	for i, o := range c.l1.ReadAll(ctx, keys, c.ask(c.loader)) {
		if leads[i].settle(o, sent) {
			missing = append(missing, leads[i])
		}
	}
	if len(missing) == 0 {
		return
	}
	if batch, ok := c.loader.(loader.BatchLoader); ok {
		c.loadTogether(ctx, batch, missing)
	} else {
		c.loadEach(missing)
	}
}

// settle finishes the key if what L1 said is enough; true when it is still to
// be loaded. A key leased elsewhere is loaded without waiting.
func (l *lead) settle(o l1.Outcome, sent l2.Instant) (missing bool) {
	switch {
	case o.Err != nil && (l.source == nil || l.policy.ReadFailure == policy.Error):
		l.finish(l.unknown(o.Err))
		return false
	case o.Err != nil:
		l.reason = RedisDown
		return true
	}
	switch l.understood(o.Reading) {
	case l1.Hit:
		l.finish(l.fromL1(o.Reading, sent), nil)
		return false
	case l1.Leased:
		l.counts.leases[leaseGranted].Add(1)
		l.token = o.Reading.Token
		return true
	case l1.Held:
		l.reason = LeaseWait
	case l1.Miss:
		l.finish(l.unpopulated(sent), nil)
		return false
	default: // rare: content of others, one by one
		if !l.start(func() { l.finish(l.through()) }) {
			l.finish(Lookup{}, ErrClosed)
		}
		return false
	}
	if l.source == nil {
		l.finish(Lookup{Kind: Unpopulated}, nil)
		return false
	}
	return true
}

// loadersPerBatch bounds the loads that one batch runs side by side where the
// loader takes single keys only.
const loadersPerBatch = 8

func (c *Cache) loadEach(leads []*lead) {
	queue := make(chan *lead, len(leads))
	for _, l := range leads {
		queue <- l
	}
	close(queue)
	var workers sync.WaitGroup
	for range min(loadersPerBatch, len(leads)) {
		workers.Go(func() {
			for l := range queue {
				if l.reason == NotDegraded {
					l.finish(l.load(l.token))
				} else {
					l.finish(l.bypass(l.reason))
				}
			}
		})
	}
	workers.Wait()
}

// loadTogether loads keys in one call, in one place.
func (c *Cache) loadTogether(ctx context.Context, batch loader.BatchLoader, leads []*lead) {
	if err := c.places.take(ctx); err != nil {
		c.countRejected()
		c.giveUp(ctx, leads, err)
		return
	}
	defer c.places.free()
	var wanted, abandoned []*lead
	for _, l := range leads {
		if !l.begin() {
			abandoned = append(abandoned, l)
			continue
		}
		if l.reason != NotDegraded {
			c.counts.degraded[l.reason].Add(1)
		}
		wanted = append(wanted, l)
	}
	c.giveUp(ctx, abandoned, flight.ErrAbandoned)
	if len(wanted) == 0 {
		return
	}
	began := time.Now()
	outcomes, late, err := c.callBatch(ctx, batch, wanted)
	if err != nil {
		c.observeLoad(began, loaded{}, err)
		if errors.Is(err, errOverdue) {
			for _, l := range wanted {
				l.finish(Lookup{}, l.loadError(err))
			}
			return
		}
		c.giveUp(ctx, wanted, err)
		return
	}
	c.fillTogether(ctx, began, wanted, outcomes, late)
}

// giveUp releases what leases the keys have and tells their readers why.
func (c *Cache) giveUp(ctx context.Context, leads []*lead, err error) {
	c.releaseTogether(ctx, leads)
	for _, l := range leads {
		l.finish(Lookup{}, err)
	}
}

// releaseTogether gives back what leases the keys have, in one round trip.
func (c *Cache) releaseTogether(ctx context.Context, leads []*lead) {
	var releases []l1.KeyToken
	for _, l := range leads {
		if l.reason == NotDegraded {
			releases = append(releases, l1.KeyToken{Key: l.key, Token: l.token})
		}
	}
	if len(releases) == 0 {
		return
	}
	c.counts.leases[leaseReleased].Add(uint64(len(releases)))
	for _, err := range c.l1.ReleaseAll(ctx, releases) {
		c.givenBack(err)
	}
}

func (c *Cache) callBatch(ctx context.Context, batch loader.BatchLoader, leads []*lead) (outcomes []loader.Outcome, late bool, err error) {
	keys, reqs := make([]string, len(leads)), make([]loader.Request, len(leads))
	for i, l := range leads {
		keys[i], reqs[i] = l.key, loader.Request{Key: l.key}
	}
	together := read{Cache: c, ctx: ctx, overdue: func() {
		for _, l := range leads {
			l.overdue()
		}
	}}
	release := func() { c.releaseTogether(context.WithoutCancel(ctx), leads) }
	outcomes, late, err = within(&together, withLoading(ctx, c, keys...), release,
		func(ctx context.Context) ([]loader.Outcome, error) { return batch.LoadAll(ctx, reqs) })
	if err == nil {
		err = countOutcomes(outcomes, reqs)
	}
	if late && err != nil {
		err = errOverdue
	}
	return outcomes, late, err
}

// countOutcomes: a loader owes one outcome per request.
func countOutcomes(outcomes []loader.Outcome, reqs []loader.Request) error {
	if len(outcomes) != len(reqs) {
		return loader.Failf("%d results for %d keys", len(outcomes), len(reqs))
	}
	return nil
}

// fillTogether stores what a batch brought in one round trip, unless it came late.
// A key that failed fails alone.
func (c *Cache) fillTogether(ctx context.Context, began time.Time, leads []*lead, outcomes []loader.Outcome, late bool) {
	var filled, unused []*lead
	var fills []l1.KeyFill
	for i, l := range leads {
		if l.err = outcomes[i].Err; l.err == nil {
			l.value, l.err = c.check(outcomes[i].Result)
			l.value.late = late
		}
		c.observeLoad(began, l.value, l.err)
		switch {
		case late: // its lease went when it became overdue
			l.finish(l.fresh(l.value), l.err)
		case l.err != nil || l.value.NoStore && l.reason == NotDegraded:
			unused = append(unused, l)
		case l.reason != NotDegraded:
			l.finish(l.degrade(l.value, l.reason), nil)
		default:
			filled = append(filled, l)
			fills = append(fills, l1.KeyFill{Key: l.key, Token: l.token, Fill: l.value.Fill})
		}
	}
	if len(fills) > 0 {
		sent := c.l2.Now()
		for i, o := range c.l1.FillAll(ctx, fills) {
			l := filled[i]
			l.finish(l.filled(l.token, l.value, sent, o.Stored, o.Err), nil)
		}
	}
	c.releaseTogether(ctx, unused)
	for _, l := range unused {
		if l.err != nil {
			l.finish(Lookup{}, l.err)
		} else {
			l.finish(l.fresh(l.value), nil)
		}
	}
}

package cache

import (
	"context"
	"sync"
	"time"

	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/runtime/policy"
)

// lifts gathers single loads that begin within a short window into one call of a
// loader that takes batches.
type lifts struct {
	mu   sync.Mutex
	open *lift // guarded by mu; takes more; nil: none
}

// lift is one such call. It runs with the context values of the load that began it.
type lift struct {
	reqs     []loader.Request // guarded by lifts.mu while open
	full     chan struct{}    // closed when it takes no more
	done     chan struct{}    // closed once the fields below are set
	outcomes []loader.Outcome
	err      error
}

// lifting is the loader to gather for, if this read's loads are to be gathered. What
// another load asks for is not: who recurs is told from its own chain of loads.
func (r *read) lifting() (loader.BatchLoader, bool) {
	if r.policy.Loads.BatchWindow == policy.Off || r.wish.own != nil || loadingAny(r.ctx) {
		return nil, false
	}
	batch, ok := r.source.(loader.BatchLoader)
	return batch, ok
}

// loadLifted loads one key together with others that are loaded at the time.
func (c *Cache) loadLifted(ctx context.Context, batch loader.BatchLoader, req loader.Request) (loader.Result, error) {
	l, at := c.lifts.join(req, c.policy.Loads.BatchKeys, func(l *lift) {
		c.tasks.Go(func() { c.lift(context.WithoutCancel(ctx), batch, l) }) // a task itself: Close waits for it
	})
	<-l.done // as for any loader, however late
	if l.err != nil {
		return loader.Result{}, l.err
	}
	return l.outcomes[at].Result, l.outcomes[at].Err
}

// join adds a request to the open lift, or opens one and begins it; at is the
// request's place.
func (s *lifts) join(req loader.Request, size int, begin func(*lift)) (l *lift, at int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l = s.open
	if l == nil {
		l = &lift{full: make(chan struct{}), done: make(chan struct{})}
		s.open = l
		begin(l)
	}
	at = len(l.reqs)
	if l.reqs = append(l.reqs, req); len(l.reqs) == size {
		s.open = nil
		close(l.full)
	}
	return l, at
}

// shut ends the gathering.
func (s *lifts) shut(l *lift) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == l {
		s.open = nil
	}
}

// lift gathers for the window, then loads in one place.
func (c *Cache) lift(ctx context.Context, batch loader.BatchLoader, l *lift) {
	defer close(l.done)
	window := time.NewTimer(c.policy.Loads.BatchWindow)
	defer window.Stop()
	select {
	case <-window.C:
		c.lifts.shut(l)
	case <-l.full:
	}
	ctx, cancel := context.WithTimeout(ctx, c.policy.Loads.Timeout)
	defer cancel()
	defer context.AfterFunc(c.loads, cancel)()
	if l.err = c.places.take(ctx); l.err != nil {
		c.countRejected()
		return
	}
	defer c.places.free()
	keys := make([]string, len(l.reqs))
	for i, req := range l.reqs {
		keys[i] = req.Key
	}
	l.outcomes, l.err = guarded(withLoading(ctx, c, keys...), c.log, func(ctx context.Context) ([]loader.Outcome, error) {
		return batch.LoadAll(ctx, l.reqs)
	})
	if l.err == nil {
		l.err = countOutcomes(l.outcomes, l.reqs)
	}
}

package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/cocache/cocache/runtime/codec"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/flight"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/l2"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/runtime/policy"
)

// load loads under a lease (step 5): a lease that comes to nothing is released
// on every way out.
func (r *read) load(token entry.Token) (Lookup, error) {
	loaded, err := r.call(loader.Request{Key: r.key}, func() { r.release(token) })
	if err != nil {
		if !errors.Is(err, errOverdue) { // whose lease went when it became overdue
			r.release(token)
		}
		return Lookup{}, r.loadError(err)
	}
	if loaded.late {
		return r.fresh(loaded), nil
	}
	if loaded.NoStore {
		r.release(token)
		return r.fresh(loaded), nil
	}
	return r.fill(token, loaded), nil
}

// bypass loads without L1 and keeps a degraded copy (steps 6 to 8).
func (r *read) bypass(reason Reason) (Lookup, error) {
	if r.source == nil {
		return Lookup{Kind: Unpopulated}, nil // which is no degraded answer: nothing was loaded
	}
	r.counts.degraded[reason].Add(1)
	loaded, err := r.call(loader.Request{Key: r.key}, func() {})
	if err != nil {
		return Lookup{}, r.loadError(err)
	}
	return r.degrade(loaded, reason), nil
}

// fill stores what was loaded in L1 under the token, then in L2 under the
// stamp.
func (r *read) fill(token entry.Token, loaded loaded) Lookup {
	sent := r.l2.Now()
	stored, err := r.l1.Fill(r.afterwards(), r.key, token, loaded.Fill)
	return r.filled(token, loaded, sent, stored, err)
}

// filled goes on once the fill was answered. A fill that Redis refused for
// sure leaves the lease unused; one of unknown outcome took effect before any
// later invalidation, or never will.
func (r *read) filled(token entry.Token, loaded loaded, sent l2.Instant, stored bool, err error) Lookup {
	if err != nil {
		r.counts.fills[fillFailed].Add(1)
		if r.notices.unstored.Due() {
			r.log.Warn("loaded value could not be stored in redis", "error", err)
		}
		if !outcomeUnknown(err) {
			r.release(token)
		}
		return r.degrade(loaded, FillRefused)
	}
	if !stored {
		r.counts.fills[fillRefused].Add(1)
		return r.degrade(loaded, FillRefused)
	}
	r.counts.fills[fillStored].Add(1)
	found := r.fresh(loaded)
	found.StoredL1, found.TTL = true, loaded.TTL
	found.LocalTTL = r.store(r.copyFor(found, copyKind(loaded), sent, loaded.TTL))
	return found
}

// degrade keeps a stamp-fenced copy for a short while of what L1 did not take.
func (r *read) degrade(loaded loaded, reason Reason) Lookup {
	found := r.fresh(loaded)
	found.Degraded = reason
	if reason == FillRefused {
		r.counts.degraded[reason].Add(1)
	}
	if loaded.NoStore || loaded.late {
		return found
	}
	found.LocalTTL = r.store(&l2.Copy{Kind: copyKind(loaded), Degraded: true, Value: found.Value,
		ContentType: found.ContentType, Version: found.Version,
		Until: r.l2.Now().Add(min(loaded.TTL, r.policy.Local.DegradedMaxAge))})
	return found
}

func copyKind(loaded loaded) l2.Kind {
	if loaded.State == entry.Negative {
		return l2.Absent
	}
	return l2.Value
}

// fresh is the answer to the readers of a load, before anything is stored.
func (r *read) fresh(loaded loaded) Lookup {
	found := Lookup{Kind: Value, Source: FromLoader, Value: loaded.Body.Payload,
		ContentType: loaded.Body.ContentType, Version: loaded.Version, Waited: r.waited}
	if loaded.State == entry.Negative {
		found.Kind = Absent
	}
	return found
}

// release gives an unused lease back, whether or not anybody still waits.
func (r *read) release(token entry.Token) {
	r.counts.leases[leaseReleased].Add(1)
	r.givenBack(r.l1.Release(r.afterwards(), r.key, token))
}

// givenBack takes how giving a token back went.
func (c *Cache) givenBack(err error) {
	if err != nil && c.notices.unreleased.Due() {
		c.log.Warn("lease could not be released, it ends by itself", "error", err, "after", c.policy.LeaseTTL)
	}
}

// afterwards is the context of what must be done though nobody waits.
func (r *read) afterwards() context.Context { return context.WithoutCancel(r.ctx) }

// loaded is a loader's answer, checked and ready to store.
type loaded struct {
	l1.Fill
	NoStore bool
	late    bool // the flight was overdue: it is for the leader's caller alone
}

// errOverdue: the load took longer than loads.timeout and brought nothing.
var errOverdue = errors.New("overdue")

func (r *read) loadError(err error) error {
	if errors.Is(err, errOverdue) {
		return &LoadTimeoutError{r.policy.Loads.Timeout}
	}
	return err
}

// call runs the loader for one key in a place of its own, or in a batch with
// others, which has one.
func (r *read) call(req loader.Request, overdue func()) (loaded, error) {
	if batch, ok := r.lifting(); ok {
		return r.runWith(req, overdue, func(ctx context.Context) (loader.Result, error) {
			return r.loadLifted(ctx, batch, req)
		})
	}
	if err := r.places.take(r.ctx); err != nil {
		r.countRejected()
		return loaded{}, err
	}
	defer r.places.free()
	return r.run(req, overdue)
}

// run runs the loader for one key, in a place that the caller has taken.
func (r *read) run(req loader.Request, overdue func()) (loaded, error) {
	return r.runWith(req, overdue, func(ctx context.Context) (loader.Result, error) { return r.source.Load(ctx, req) })
}

func (r *read) runWith(req loader.Request, overdue func(), load func(context.Context) (loader.Result, error)) (loaded, error) {
	if !r.begin() {
		return loaded{}, flight.ErrAbandoned
	}
	began := time.Now()
	res, late, err := within(r, withLoading(r.ctx, r.Cache, req.Key), overdue, load)
	var checked loaded
	if err == nil {
		checked, err = r.check(res)
		checked.late = late
	}
	if late && err != nil {
		err = errOverdue // its lease went when it became overdue
	}
	r.observeLoad(began, checked, err)
	return checked, err
}

// within runs load under loads.timeout. Past it the flight is overdue: its
// waiters are told, overdue runs, and what the loader brings in the end is late.
func within[T any](r *read, ctx context.Context, overdue func(), load func(context.Context) (T, error)) (value T, late bool, err error) {
	timeout := r.policy.Loads.Timeout
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer context.AfterFunc(r.loads, cancel)()
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() { // ends with the loader, which is waited for below
		a := answer{err: loader.Failf("the loader ended its goroutine")} // unless it returns
		defer func() { answers <- a }()
		a.value, a.err = guarded(ctx, r.log, load)
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case a := <-answers:
		if a.err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && !isLoaderFailure(a.err) {
			a.err = fmt.Errorf("%w: %w", errOverdue, a.err)
			r.overdue()
			overdue()
		}
		return a.value, false, a.err
	case <-timer.C:
		r.overdue()
		overdue()
		a := <-answers
		if a.err != nil {
			a.err = errOverdue
		}
		return a.value, true, a.err
	}
}

// guarded turns a panic of a Go loader into that loader's failure.
func guarded[T any](ctx context.Context, log *slog.Logger, load func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("loader panicked", "panic", p, "stack", string(debug.Stack()))
			err = loader.Failf("panic: %v", p)
		}
	}()
	return load(ctx)
}

// check holds a loader's result against the codec, the limits and the ttl
// rules; what does not pass is the loader's failure.
func (c *Cache) check(res loader.Result) (loaded, error) {
	ttl, err := c.fillTTL(res)
	if err != nil {
		return loaded{}, err
	}
	if res.Status != loader.Value && res.Status != loader.Absent {
		return loaded{}, loader.Failf("unknown status %d", res.Status)
	}
	if res.Status == loader.Absent {
		return loaded{Fill: l1.Fill{State: entry.Negative, TTL: ttl, Version: res.Version}, NoStore: res.NoStore}, nil
	}
	if limit := c.policy.Limits.MaxValueBytes; int64(len(res.Value)) > limit {
		return loaded{}, &loader.Error{Kind: loader.Limited, Limit: "limits.max-value-bytes", Value: fmt.Sprint(limit),
			Message: fmt.Sprintf("the value has %d bytes", len(res.Value))}
	}
	if err := codec.Check(c.policy.Codec, res.Value); err != nil {
		return loaded{}, loader.Failf("value does not fit codec %s: %v", c.policy.Codec, err)
	}
	if err := codec.CheckContentType(c.policy.Codec, res.ContentType); err != nil {
		return loaded{}, loader.Failf("content type: %v", err)
	}
	body := entry.Body{Codec: codec.ID(c.policy.Codec), Payload: string(res.Value)}
	if c.policy.Codec == policy.Raw {
		body.ContentType = res.ContentType
	}
	return loaded{Fill: l1.Fill{State: entry.Value, TTL: ttl, Version: res.Version, Body: body}, NoStore: res.NoStore}, nil
}

// fillTTL is the life of what was loaded: the loader's own ttl or the
// namespace's, spread by the jitter for a value, and at most max-ttl.
func (c *Cache) fillTTL(res loader.Result) (time.Duration, error) {
	ttl := res.TTL
	switch {
	case ttl < 0 || ttl > 0 && ttl < time.Millisecond:
		return 0, loader.Failf("ttl %s is under 1ms", ttl)
	case res.Status == loader.Absent:
		if ttl == 0 {
			ttl = c.policy.AbsentTTL
		}
		return min(ttl, c.policy.MaxTTL), nil
	case ttl == 0:
		ttl = c.policy.TTL
	}
	return min(jitter(ttl, c.policy.TTLJitter), c.policy.MaxTTL), nil
}

// jitter spreads ttl by up to percent both ways.
func jitter(ttl time.Duration, percent int) time.Duration {
	if percent <= 0 || ttl == Forever {
		return ttl
	}
	spread := float64(ttl) * float64(percent) / 100 * (2*rand.Float64() - 1)
	if moved := float64(ttl) + spread; moved < float64(Forever) {
		return max(time.Duration(moved), time.Millisecond)
	}
	return ttl
}

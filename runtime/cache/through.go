package cache

import (
	"context"
	"errors"
	"time"

	"github.com/cocache/cocache/runtime/codec"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/flight"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/l2"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/runtime/policy"
	"github.com/cocache/cocache/runtime/stamp"
)

// read is one key's way through the tiers.
type read struct {
	*Cache
	source  loader.Loader // nil: none
	ctx     context.Context
	key     string
	noted   stamp.Stamp
	begin   func() bool // tells that the loader is about to run; false: nobody wants it any more
	overdue func()      // tells that the load has taken too long
	askNext func() int  // numbers a question to L1
	offer   func(flight.Offer[result])
	wish    wish // of the leader
	asked   int  // number of the last question
	waited  bool
}

// through reads L1, asking for the lease, until there is an answer (steps 3-8).
// Whether an invalidation of the key is pending is asked after the stamp was
// taken: one that is queued later bumps it.
func (r *read) through() (Lookup, error) {
	if r.pending.Find(r.key) != nil {
		return r.pastL1()
	}
	var wait leaseWait
	for {
		sent := r.l2.Now()
		r.asked = r.askNext()
		reading, err := r.l1.Read(r.ctx, r.key, r.ask(r.source))
		if err != nil {
			return r.redisDown(err)
		}
		switch r.understood(reading) {
		case l1.Hit:
			return r.fromL1(reading, sent), nil
		case l1.Leased:
			r.counts.leases[leaseGranted].Add(1)
			if r.waited {
				r.counts.leases[leaseTakenOver].Add(1)
			}
			r.offerStale(reading.Stale, r.asked)
			return r.load(reading.Token)
		case l1.Held:
			if r.source == nil {
				return Lookup{Kind: Unpopulated}, nil
			}
			if found, ok := r.stale(reading.Stale); ok && !r.wish.fresh {
				return found, nil
			}
			r.offerStale(reading.Stale, r.asked)
			r.waited = true
			again, err := wait.pause(r.ctx, r.policy, reading.Left)
			if err != nil {
				return Lookup{}, err
			}
			if !again {
				r.counts.leases[leaseTimedOut].Add(1)
				return r.bypass(LeaseWait)
			}
		case l1.Unreadable:
			return r.reclaim(reading.Content)
		case l1.Newer:
			return r.bypass(NewerFormat)
		case l1.ForeignType:
			return r.bypass(ForeignContent)
		default:
			return r.unpopulated(sent), nil
		}
	}
}

// understood is the reading's kind, but for a value of another codec, which is
// as good as unreadable.
func (c *Cache) understood(reading l1.Reading) l1.Kind {
	if reading.Kind == l1.Hit && reading.Entry.State == entry.Value && reading.Entry.Codec != codec.ID(c.policy.Codec) {
		return l1.Unreadable
	}
	return reading.Kind
}

// ask takes a lease only where it can be used.
func (c *Cache) ask(source loader.Loader) l1.Ask {
	return l1.Ask{Lease: source != nil, LeaseTTL: c.policy.LeaseTTL}
}

// leaseWait is the wait for another instance's load.
type leaseWait struct {
	until time.Time // zero: not begun
	next  time.Duration
}

// pause sleeps before the next look at a lease with so much left; again is
// false when lease-wait is over.
func (w *leaseWait) pause(ctx context.Context, p policy.Policy, left time.Duration) (again bool, err error) {
	if p.LeaseWait == policy.Off {
		return false, nil
	}
	if w.until.IsZero() {
		w.until, w.next = time.Now().Add(p.LeaseWait), p.LeasePoll.Min
	}
	rest := time.Until(w.until)
	if rest <= 0 {
		return false, nil
	}
	timer := time.NewTimer(min(w.next, left, rest))
	defer timer.Stop()
	w.next = min(2*w.next, p.LeasePoll.Max)
	select {
	case <-timer.C:
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// fromL1 answers with what L1 holds and keeps a copy under the stamp (step 4).
func (r *read) fromL1(reading l1.Reading, sent l2.Instant) Lookup {
	found, copy := r.copyOf(reading, sent)
	found.LocalTTL = r.store(copy)
	return found
}

func (r *read) copyOf(reading l1.Reading, sent l2.Instant) (Lookup, *l2.Copy) {
	kind := l2.Value
	found := Lookup{Kind: Value, Source: FromL1, Value: reading.Entry.Payload,
		ContentType: reading.Entry.ContentType, Version: reading.Entry.Version, TTL: reading.Left, Waited: r.waited}
	if reading.Entry.State == entry.Negative {
		kind, found.Kind = l2.Absent, Absent
	}
	return found, r.copyFor(found, kind, sent, reading.Left)
}

// copyFor makes a copy of what L1 holds for left more from sent on; its life is
// counted from the moment the command was sent, never from the answer. A copy
// that begins inside the refresh window gets no refresh point: it would be
// reloaded at every hit.
func (r *read) copyFor(found Lookup, kind l2.Kind, sent l2.Instant, left time.Duration) *l2.Copy {
	copy := &l2.Copy{Kind: kind, Value: found.Value, ContentType: found.ContentType, Version: found.Version,
		L1Until: sent.Add(left), Until: sent.Add(min(left, r.localAge()))}
	if window := r.policy.RefreshWindow; window != policy.Off && left != Forever && left > window && r.Cache.loader != nil {
		copy.SetRefresh(sent.Add(left - window))
	}
	return copy
}

// localAge bounds a copy of what L1 holds, which is shorter while messages may be
// missing.
func (c *Cache) localAge() time.Duration {
	return min(c.policy.Local.MaxAge, c.feed.Reliance(c.l1.Channel()))
}

// store keeps a copy if the stamp allows and answers how long it lives.
func (r *read) store(copy *l2.Copy) time.Duration {
	now := r.l2.Now()
	if r.policy.Local.Disabled || copy.Until <= now || !r.l2.Store(r.key, r.noted, copy) {
		return 0
	}
	return copy.Until.Sub(now)
}

// unpopulated remembers in L2 alone that nobody has put the key; a negative
// entry in L1 would hide a later put.
func (r *read) unpopulated(sent l2.Instant) Lookup {
	found := Lookup{Kind: Unpopulated}
	life := min(r.policy.AbsentTTL, r.localAge())
	found.LocalTTL = r.store(&l2.Copy{Kind: l2.Unpopulated, Until: sent.Add(life)})
	return found
}

// redisDown answers without L1, or not at all (step 8).
func (r *read) redisDown(err error) (Lookup, error) {
	if r.ctx.Err() != nil {
		return Lookup{}, context.Cause(r.ctx)
	}
	if r.source == nil || r.policy.ReadFailure == policy.Error {
		return r.unknown(err)
	}
	if saidNo(err) && r.notices.refused.Due() { // one that is away is told by its client
		r.log.Warn("redis refuses to serve reads, going on without it", "error", err)
	}
	return r.bypass(RedisDown)
}

// unknown is the answer of a read that could learn nothing; nothing is
// remembered of it.
func (c *Cache) unknown(err error) (Lookup, error) {
	if c.policy.UnknownRead == policy.AbsentUnknown {
		return Lookup{Kind: Absent}, nil
	}
	return Lookup{}, &ReadError{err}
}

// pastL1 reads a key whose value in L1 may be one that this instance has
// invalidated.
func (r *read) pastL1() (Lookup, error) {
	if r.source == nil {
		return r.unknown(errPending)
	}
	return r.bypass(PendingInvalidation)
}

// reclaim turns content that nobody can read into a lease (step 7).
func (r *read) reclaim(content string) (Lookup, error) {
	if r.source == nil {
		return Lookup{Kind: Unpopulated}, nil
	}
	token, ok, err := r.l1.Reclaim(r.ctx, r.key, content, r.policy.LeaseTTL)
	if err != nil {
		return r.redisDown(err)
	}
	if !ok {
		return r.bypass(ForeignContent)
	}
	r.counts.leases[leaseReclaimed].Add(1)
	if r.notices.unreadable.Due() {
		r.log.Warn("unreadable content under a key is replaced by a load")
	}
	return r.load(token)
}

// isLoaderFailure reports whether err is the tenant's doing.
func isLoaderFailure(err error) bool {
	var failure *loader.Error
	return errors.As(err, &failure)
}

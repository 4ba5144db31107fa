package cache

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cocache/cocache/runtime/policy"
)

// places bounds the loads of a namespace that run at once and those that wait
// for one of them to end.
type places struct {
	limits policy.Loads
	taken  chan struct{} // one element per running load
	queued atomic.Int64
}

func newPlaces(limits policy.Loads) *places {
	return &places{limits: limits, taken: make(chan struct{}, limits.MaxConcurrent)}
}

// tryTake takes a place if one is free.
func (p *places) tryTake() bool {
	select {
	case p.taken <- struct{}{}:
		return true
	default:
		return false
	}
}

// take takes a place, queueing for at most queue-wait.
func (p *places) take(ctx context.Context) error {
	if p.tryTake() {
		return nil
	}
	if queued := p.queued.Add(1); queued > int64(max(p.limits.MaxQueued, 0)) {
		p.queued.Add(-1)
		return &OverloadedError{Limit: "loads.max-queued", Value: fmt.Sprint(max(p.limits.MaxQueued, 0)),
			RetryAfter: p.limits.QueueWait}
	}
	defer p.queued.Add(-1)
	timer := time.NewTimer(p.limits.QueueWait)
	defer timer.Stop()
	select {
	case p.taken <- struct{}{}:
		return nil
	case <-timer.C:
		return p.overloaded()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *places) overloaded() error {
	return &OverloadedError{Limit: "loads.max-concurrent", Value: fmt.Sprint(p.limits.MaxConcurrent),
		RetryAfter: p.limits.QueueWait}
}

func (p *places) free() { <-p.taken }

func (p *places) running() int { return len(p.taken) }

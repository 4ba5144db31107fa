package wasm

import (
	"context"
	"math"
	"time"
)

// call is what belongs to one call of a guest, or to the start of one, and dies
// with it: its time, its host handles, its log lines. Host functions find it in
// their context. It is used by one goroutine.
type call struct {
	spec *Spec
	// parent is the caller's context, ctx the one that also ends at the
	// guest's limit.
	parent, ctx context.Context
	cancel      context.CancelFunc
	memory      *memory // of the instance that is called
	handles     handles
	log         guestLog
}

type callKey struct{}

func newCall(ctx context.Context, spec *Spec) *call {
	c := &call{spec: spec, parent: ctx, log: guestLog{to: spec.Capabilities.Log}}
	c.ctx, c.cancel = context.WithTimeout(context.WithValue(ctx, callKey{}, c), spec.Timeout)
	return c
}

// callOf is the call that a host function was called from.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// end stops what the guest left running and waits for it.
func (c *call) end() {
	c.cancel()
	c.handles.closeAll()
	c.log.flush(c.parent)
}

// budget is how many milliseconds the guest has, at least 1.
func (c *call) budget() uint32 {
	deadline, _ := c.ctx.Deadline()
	left := time.Until(deadline).Milliseconds()
	return uint32(min(max(left, 1), math.MaxUint32))
}

// sleep waits for d. It is cut short by the end of the call.
func (c *call) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ctx.Done():
		panic(errOver)
	}
}

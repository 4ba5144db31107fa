package wasm

import (
	"context"
	"math"
	"time"

	"github.com/cocache/cocache/loaders/wasm/hostcall"
)

// call is one call of a guest, or the start of one, as the engine sees it: what
// it runs under, and what names its end. It is used by one goroutine.
type call struct {
	spec *Spec
	// parent is the caller's context, ctx the one that also ends at the
	// guest's limit.
	parent, ctx context.Context
	host        *hostcall.Call
	memory      *memory // of the instance that is called
}

func (l *single) begin(ctx context.Context) *call {
	c := &call{spec: &l.spec, parent: ctx}
	c.ctx, c.host = l.host.Begin(ctx)
	return c
}

func (c *call) end() { c.host.End() }

// budget is how many milliseconds the guest has, at least 1.
func (c *call) budget() uint32 {
	deadline, _ := c.ctx.Deadline()
	left := time.Until(deadline).Milliseconds()
	return uint32(min(max(left, 1), math.MaxUint32))
}

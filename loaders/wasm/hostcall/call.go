// Package hostcall is what a WebAssembly guest may call in its host: the module
// cocache of ABI version 1, and what compilers import by themselves of WASI
// preview 1 and AssemblyScript.
//
// It owns these functions and what a call of a guest holds in its host: time,
// handles and log lines, all bounded. What a guest hands over is checked before
// it is used, and nothing that a call started outlives the call.
//
// It knows no instances, frames or exports of a guest. A function ends its guest
// by a panic, of which the engine makes an error: a *loader.Error, a
// *sys.ExitError or, when the time is over, one that says less than the contexts.
package hostcall

import (
	"context"
	"time"

	"github.com/cocache/cocache/loaders/capability"
)

// Host is what all calls of one module have in common.
type Host struct {
	capabilities capability.Set
	timeout      time.Duration
	// epoch is what the guests' monotonic clock counts from.
	epoch time.Time
}

// NewHost makes the host of a module whose calls last timeout at most.
func NewHost(c capability.Set, timeout time.Duration) *Host {
	return &Host{capabilities: c, timeout: timeout, epoch: time.Now()}
}

// Call is what belongs to one call of a guest, or to the start of one, and dies
// with it: its time, its handles, its log lines. It is used by one goroutine.
type Call struct {
	host *Host
	// parent is the caller's context, ctx the one that also ends at the
	// guest's limit.
	parent, ctx context.Context
	cancel      context.CancelFunc
	handles     handles
	log         guestLog
}

type callKey struct{}

// Begin starts the time of a call. The guest has to run under the context that
// it answers: it ends with the call, and host functions find the call in it.
func (h *Host) Begin(ctx context.Context) (context.Context, *Call) {
	c := &Call{host: h, parent: ctx, log: guestLog{to: h.capabilities.Log}}
	c.ctx, c.cancel = context.WithTimeout(context.WithValue(ctx, callKey{}, c), h.timeout)
	return c.ctx, c
}

// callOf is the call that a host function was called from.
func callOf(ctx context.Context) *Call { return ctx.Value(callKey{}).(*Call) }

// End stops what the guest left running and waits for it.
func (c *Call) End() {
	c.cancel()
	c.handles.closeAll()
	c.log.flush(c.parent)
}

// sleep waits for d. It is cut short by the end of the call.
func (c *Call) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ctx.Done():
		panic(errOver)
	}
}

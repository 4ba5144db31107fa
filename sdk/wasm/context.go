//go:build wasip1

package wasm

import (
	"time"

	"github.com/cocache/cocache/sdk/abi"
)

// Context is what a handler knows of its call besides the key.
type Context struct {
	previous   uint64
	background bool
	deadline   time.Time
}

func newContext(r *abi.Request, key int) *Context {
	c := &Context{background: r.Background, deadline: time.Now().Add(time.Duration(r.BudgetMS) * time.Millisecond)}
	if key >= 0 {
		c.previous = r.Keys[key].Previous
	}
	return c
}

// Previous is the version of the value that is being replaced, 0 when it is
// not known. In a BatchHandler it is always 0.
func (c *Context) Previous() uint64 { return c.previous }

// Background is true for a refresh that no reader waits for.
func (c *Context) Background() bool { return c.background }

// Deadline is when the host ends the call.
func (c *Context) Deadline() time.Time { return c.deadline }

package l1

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/alicebob/miniredis/v2"
)

// Embedded is a Redis server inside this process, reached through memory: for
// a single instance that needs no other server, and for tests. What it holds
// is gone when it closes.
type Embedded struct {
	server *miniredis.Miniredis
	closed atomic.Bool
}

// NewEmbedded makes a server whose keys expire with the clock.
func NewEmbedded() *Embedded {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	return &Embedded{server: server}
}

// Dial connects to the server; use it as Options.Dial.
func (e *Embedded) Dial(context.Context) (net.Conn, error) {
	if e.closed.Load() { // the server itself would start again
		return nil, net.ErrClosed
	}
	return e.server.Dial()
}

// Close ends the server and every connection to it.
func (e *Embedded) Close() {
	e.closed.Store(true)
	e.server.Close()
}

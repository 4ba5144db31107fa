package channel

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/tests/redistest"
	"github.com/cocache/cocache/tests/wire"
)

// A server or proxy that knows no RESP3 brings messages over a connection apart,
// on which the library sends no PING: that it is dead is told by the process's own
// sign of life.
func TestOverTheOlderProtocol(t *testing.T) {
	server := redistest.Start(t, "--rename-command", "HELLO", "")
	over := wire.To(server.Addr)
	const beat = 500 * time.Millisecond
	w := newWorld(t, Options{Heartbeat: beat, Timeout: 20 * time.Second}, over,
		l1.Options{Addresses: []string{server.Addr}, Dial: over.Dial, Heartbeat: beat, CommandTimeout: 20 * time.Second},
		func(ctx context.Context, _ string, d *net.Dialer) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", server.Addr)
		})
	own := w.client.Namespace("n", node)
	r := &recorder{}
	if err := w.feed.Add(ctx, own.Channel(), node, r); err != nil {
		t.Fatal(err)
	}
	if err := own.Join(ctx); err != nil {
		t.Fatal(err)
	}
	defer own.Leave(ctx)
	w.want(r, append(confirmed, "changed ")...)
	w.publish(own.Channel(), keys("k"))
	w.want(r, "changed k")
	time.Sleep(5 * beat)
	w.quiet(r)

	over.Numb(wire.Feed)
	w.want(r, append(lost, confirmed...)...)
	w.publish(own.Channel(), keys("l"))
	w.want(r, "changed l")
}

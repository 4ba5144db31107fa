package script

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cocache/cocache/tests/redistest"
	"github.com/cocache/cocache/tests/wire"
	"github.com/rogpeppe/go-internal/testscript"
)

// redisServer is a Redis, or an address that will lead to one.
type redisServer struct {
	addr   string
	server *redistest.Server // nil behind a relay
	relay  *forwarder        // nil while it leads nowhere
}

func startRedis(ts *testscript.TestScript, _ bool, args []string) {
	opts, args := options(ts, args, "-at")
	want(ts, len(args) >= 1, "usage: redis [-cluster] [-at ADDR] NAME [ARG…]")
	s, name := stateOf(ts), args[0]
	r := &redisServer{}
	if _, cluster := opts["-cluster"]; cluster {
		r.server = redistest.StartCluster(s.t)
	} else if addr := opts["-at"]; addr != "" {
		_, port, _ := strings.Cut(addr, ":")
		r.server = redistest.StartOn(s.t, number(ts, port), args[1:]...)
	} else {
		r.server = redistest.Start(s.t, args[1:]...)
	}
	r.addr = r.server.Addr
	s.redis[name] = r
	ts.Setenv(name, r.addr)
	_, port, _ := strings.Cut(r.addr, ":")
	ts.Setenv(name+"_PORT", port)
}

func redisOf(ts *testscript.TestScript, name string) *redisServer {
	r := stateOf(ts).redis[name]
	want(ts, r != nil && r.server != nil, "no redis %s", name)
	return r
}

func redisDo(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) >= 2, "usage: redis-do NAME WORD…")
	words := make([]string, len(args)-1)
	for i, word := range args[1:] {
		words[i] = unescape(ts, word)
	}
	fmt.Fprint(ts.Stdout(), redisOf(ts, args[0]).server.Do(stateOf(ts).t, words...))
}

// Where an entry says what it is; see runtime/PROTOCOL.md.
const (
	stateAt     = 3
	typeSizeAt  = 168
	payloadFrom = 174
)

func l1Holds(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) == 4 || len(args) == 5, "usage: l1 NAME NAMESPACE KEY none|lease|absent|value|stale [TEXT]")
	reply := redisOf(ts, args[0]).server.Do(stateOf(ts).t, "GET", "cocache:{}"+args[1]+":"+unescape(ts, args[2]))
	held, entry := "none", ""
	if !strings.HasPrefix(reply, "$-1") {
		_, entry, _ = strings.Cut(reply, "\r\n")
		entry = strings.TrimSuffix(entry, "\r\n")
		want(ts, len(entry) >= payloadFrom, "not an entry: %q", reply)
		held = map[byte]string{'L': "lease", 'V': "value", 'M': "absent", 'S': "stale"}[entry[stateAt]]
	}
	want(ts, held == args[3], "redis holds %s, want %s: %q", held, args[3], entry)
	if len(args) == 5 {
		text := entry[payloadFrom+int(entry[typeSizeAt]):]
		want(ts, text == unescape(ts, args[4]), "redis holds %q, want %q", text, args[4])
	}
}

// relay makes an address that nobody answers; called again with an address, it
// passes what comes there on to it, over a wire that the other words spoil.
func relay(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) >= 1 && len(args) <= 3, "usage: relay NAME [ADDR | off | to ADDR | numb|dead|mute|hold PART | mend]")
	s := stateOf(ts)
	r := s.redis[args[0]]
	if r == nil {
		r = &redisServer{addr: freeAddr(ts)}
		s.redis[args[0]] = r
		ts.Setenv(args[0], r.addr)
	}
	switch {
	case len(args) == 1:
	case len(args) == 3 || args[1] == "mend":
		want(ts, r.relay != nil, "%s leads nowhere", args[0])
		r.relay.spoil(ts, args[1:])
	case args[1] == "off":
		r.relay.close()
		r.relay = nil
	default:
		r.relay.close()
		l, err := net.Listen("tcp", r.addr)
		ts.Check(err)
		r.relay = newForwarder(l, args[1])
		r.relay.wait.Go(r.relay.run)
		ts.Defer(r.relay.close)
	}
}

// forwarder joins each connection with one over the wire.
type forwarder struct {
	listener net.Listener
	wire     *wire.Wire
	to       atomic.Pointer[string] // where new connections lead
	dead     wire.Part
	wait     sync.WaitGroup
	mu       sync.Mutex
	closed   bool       // guarded by mu
	conns    []net.Conn // guarded by mu
}

func newForwarder(l net.Listener, to string) *forwarder {
	f := &forwarder{listener: l}
	f.to.Store(&to)
	f.wire = wire.New(func(context.Context) (net.Conn, error) { return dial(*f.to.Load()) })
	return f
}

func (f *forwarder) spoil(ts *testscript.TestScript, words []string) {
	if words[0] == "mend" {
		f.wire.Dead(wire.All, false)
		f.wire.Mute(wire.All, false)
		f.wire.Release()
		f.wire.Cut(f.dead) // what was lost on them does not come any more
		f.dead = 0
		return
	}
	if words[0] == "to" {
		f.to.Store(&words[1])
		return
	}
	part, ok := map[string]wire.Part{"commands": wire.Commands, "feed": wire.Feed, "all": wire.All}[words[1]]
	want(ts, ok, "unknown part %s", words[1])
	switch words[0] {
	case "dead":
		f.wire.Dead(part, true)
		f.dead |= part
	case "mute":
		f.wire.Mute(part, true)
		f.dead |= part
	case "numb":
		f.wire.Numb(part)
	case "hold":
		f.wire.Hold(part)
	default:
		ts.Fatalf("unknown word %s", words[0])
	}
}

func (f *forwarder) run() {
	for {
		from, err := f.listener.Accept()
		if err != nil {
			return
		}
		to, err := f.wire.Dial(context.Background())
		if err != nil {
			from.Close()
			continue
		}
		if !f.keep(from, to) {
			return
		}
		f.wait.Go(func() { io.Copy(to, from); to.Close() })
		f.wait.Go(func() { io.Copy(from, to); from.Close() })
	}
}

func (f *forwarder) keep(conns ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = append(f.conns, conns...)
	if f.closed {
		for _, c := range conns {
			c.Close()
		}
	}
	return !f.closed
}

// close is for a nil forwarder too.
func (f *forwarder) close() {
	if f == nil {
		return
	}
	f.listener.Close()
	f.wire.Release()
	f.mu.Lock()
	f.closed = true
	for _, c := range f.conns {
		c.Close()
	}
	f.mu.Unlock()
	f.wait.Wait()
}

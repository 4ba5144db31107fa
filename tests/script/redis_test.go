package script

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/cocache/cocache/tests/redistest"
	"github.com/rogpeppe/go-internal/testscript"
)

// redisServer is a Redis, or an address that will lead to one.
type redisServer struct {
	addr    string
	server  *redistest.Server // nil behind a relay
	forward *forwarder        // of a relay
}

func startRedis(ts *testscript.TestScript, _ bool, args []string) {
	opts, args := options(ts, args)
	want(ts, len(args) == 1, "usage: redis [-cluster] NAME")
	s := stateOf(ts)
	start := func() *redistest.Server { return redistest.Start(s.t) }
	if _, cluster := opts["-cluster"]; cluster {
		start = func() *redistest.Server { return redistest.StartCluster(s.t) }
	}
	r := start()
	s.redis[args[0]] = &redisServer{addr: r.Addr, server: r}
	ts.Setenv(args[0], r.Addr)
}

func redisOf(ts *testscript.TestScript, name string) *redisServer {
	r := stateOf(ts).redis[name]
	want(ts, r != nil && r.server != nil, "no redis %s", name)
	return r
}

func redisDo(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) >= 2, "usage: redis-do NAME WORD…")
	fmt.Fprint(ts.Stdout(), redisOf(ts, args[0]).server.Do(stateOf(ts).t, args[1:]...))
}

// Where an entry says what it is; see runtime/PROTOCOL.md.
const (
	stateAt     = 3
	typeSizeAt  = 168
	payloadFrom = 170
)

func l1Holds(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) == 4 || len(args) == 5, "usage: l1 NAME NAMESPACE KEY none|lease|absent|value [TEXT]")
	reply := redisOf(ts, args[0]).server.Do(stateOf(ts).t, "GET", "cocache:{}"+args[1]+":"+unescape(ts, args[2]))
	held, entry := "none", ""
	if !strings.HasPrefix(reply, "$-1") {
		_, entry, _ = strings.Cut(reply, "\r\n")
		entry = strings.TrimSuffix(entry, "\r\n")
		want(ts, len(entry) >= payloadFrom, "not an entry: %q", reply)
		held = map[byte]string{'L': "lease", 'V': "value", 'M': "absent"}[entry[stateAt]]
	}
	want(ts, held == args[3], "redis holds %s, want %s: %q", held, args[3], entry)
	if len(args) == 5 {
		text := entry[payloadFrom+int(entry[typeSizeAt]):]
		want(ts, text == unescape(ts, args[4]), "redis holds %q, want %q", text, args[4])
	}
}

// relay makes an address that nobody answers; called again with an address, it
// passes what comes there on to it, and with "off" it drops all that it passed.
func relay(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) == 1 || len(args) == 2, "usage: relay NAME [ADDR|off]")
	s := stateOf(ts)
	r := s.redis[args[0]]
	if r == nil {
		r = &redisServer{addr: freeAddr(ts)}
		s.redis[args[0]] = r
		ts.Setenv(args[0], r.addr)
	}
	if len(args) == 1 {
		return
	}
	if r.forward != nil {
		r.forward.close()
	}
	if args[1] == "off" {
		return
	}
	l, err := net.Listen("tcp", r.addr)
	ts.Check(err)
	r.forward = &forwarder{listener: l, to: args[1]}
	r.forward.wait.Go(r.forward.run)
	ts.Defer(r.forward.close)
}

// forwarder joins each connection with one of its own.
type forwarder struct {
	listener net.Listener
	to       string
	wait     sync.WaitGroup
	mu       sync.Mutex
	closed   bool       // guarded by mu
	conns    []net.Conn // guarded by mu
}

func (f *forwarder) run() {
	for {
		from, err := f.listener.Accept()
		if err != nil {
			return
		}
		to, err := dial(f.to)
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

func (f *forwarder) close() {
	f.listener.Close()
	f.mu.Lock()
	f.closed = true
	for _, c := range f.conns {
		c.Close()
	}
	f.mu.Unlock()
	f.wait.Wait()
}

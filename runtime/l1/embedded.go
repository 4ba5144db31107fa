package l1

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
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

// Dial connects to the server; use it as Options.Dial. A pipe has no buffer, as a
// socket has, and a client that sends a long pipeline before it reads an answer
// would wait for a server that waits for its answer to be read; so what is sent is
// spooled.
func (e *Embedded) Dial(context.Context) (net.Conn, error) {
	if e.closed.Load() { // the server itself would start again
		return nil, net.ErrClosed
	}
	server, err := e.server.Dial()
	if err != nil {
		return nil, err
	}
	client, near := net.Pipe()
	s := newSpool()
	go func() { io.Copy(s, near); s.Close() }()
	go func() { io.Copy(server, s); server.Close() }()
	go func() { io.Copy(near, server); near.Close(); server.Close(); s.Close() }() // or it would answer nobody for ever
	return client, nil
}

// Close ends the server and every connection to it.
func (e *Embedded) Close() {
	e.closed.Store(true)
	e.server.Close()
}

// spool is a pipe whose writer never waits.
type spool struct {
	mu     sync.Mutex
	more   sync.Cond
	bytes  bytes.Buffer // guarded by mu
	closed bool         // guarded by mu
}

func newSpool() *spool {
	s := &spool{}
	s.more.L = &s.mu
	return s
}

func (s *spool) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, io.ErrClosedPipe
	}
	s.more.Signal()
	return s.bytes.Write(p)
}

// Read waits for what was written; what was is read even after Close.
func (s *spool) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.bytes.Len() == 0 {
		if s.closed {
			return 0, io.EOF
		}
		s.more.Wait()
	}
	n, err := s.bytes.Read(p)
	if s.bytes.Len() == 0 && s.bytes.Cap() > keepSpool {
		s.bytes = bytes.Buffer{}
	}
	return n, err
}

// keepSpool is how much room an empty spool keeps.
const keepSpool = 1 << 20

func (s *spool) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.more.Broadcast()
}

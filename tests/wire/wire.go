// Package wire is a bad wire between a client and a Redis, for tests: it holds,
// delays, loses and cuts what passes, each direction for itself, and remembers
// what was sent. It works in real time and in a synctest bubble.
package wire

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"
)

// Part is the connections that a fault concerns. One belongs to the feed from
// its first SUBSCRIBE on.
type Part uint8

const (
	Commands Part = 1 << iota
	Feed
	All = Commands | Feed
)

// Command is one that was sent.
type Command struct {
	Words []string
	At    time.Time
	Part  Part
}

// Is reports whether the command's name is name, in capitals.
func (c Command) Is(name string) bool { return strings.EqualFold(c.Words[0], name) }

// Wire leads to one server.
type Wire struct {
	dial func(context.Context) (net.Conn, error)

	mu    sync.Mutex
	held  map[Part]chan struct{} // guarded by mu; closed by Release
	slow  map[Part]time.Duration // guarded by mu
	mute  Part                   // guarded by mu
	dead  Part                   // guarded by mu
	lose  []string               // guarded by mu; each once
	down  error                  // guarded by mu; what dialling answers
	far   time.Duration          // guarded by mu; that dialling takes
	conns []*conn                // guarded by mu
	sent  []Command              // guarded by mu
}

// New makes a wire whose far end dial reaches.
func New(dial func(context.Context) (net.Conn, error)) *Wire {
	return &Wire{dial: dial, held: map[Part]chan struct{}{}, slow: map[Part]time.Duration{}}
}

// To makes a wire to a TCP address.
func To(address string) *Wire {
	return New(func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	})
}

// conn is one connection: near is our end of the pipe to the client.
type conn struct {
	near, server net.Conn
	part         Part // guarded by Wire.mu
	numb         bool // guarded by Wire.mu
}

// Hold keeps what is sent from now on; it arrives once it is released, even if
// its sender has hung up since.
func (w *Wire) Hold(p Part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, part := range parts(p) {
		if w.held[part] == nil {
			w.held[part] = make(chan struct{})
		}
	}
}

// Release ends every Hold.
func (w *Wire) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for part, gate := range w.held {
		close(gate)
		delete(w.held, part)
	}
}

// Slow makes what is sent take so long.
func (w *Wire) Slow(p Part, by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, part := range parts(p) {
		w.slow[part] = by
	}
}

// Mute loses every answer while on; what is sent arrives.
func (w *Wire) Mute(p Part, on bool) { w.set(&w.mute, p, on) }

// Dead loses what passes in both directions while on, and closes nothing.
func (w *Wire) Dead(p Part, on bool) { w.set(&w.dead, p, on) }

// Numb makes the connections there are dead for good: half-open ones. New ones
// are well.
func (w *Wire) Numb(p Part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.numb = c.numb || c.part&p != 0
	}
}

func (w *Wire) set(field *Part, p Part, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if on {
		*field |= p
	} else {
		*field &^= p
	}
}

// Lose loses the next message of the feed that contains text.
func (w *Wire) Lose(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = append(w.lose, text)
}

// Cut closes the connections there are.
func (w *Wire) Cut(p Part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := w.conns[:0]
	for _, c := range w.conns {
		if c.part&p == 0 {
			kept = append(kept, c)
			continue
		}
		c.near.Close()
	}
	w.conns = kept
}

// Down makes dialling answer err from now on; nil mends it. It leaves the
// connections there are.
func (w *Wire) Down(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = err
}

// Far makes dialling take so long.
func (w *Wire) Far(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.far = by
}

// Sent is what clients have sent since the last Forget.
func (w *Wire) Sent() []Command {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Command(nil), w.sent...)
}

// Forget forgets what was sent.
func (w *Wire) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = nil
}

// Dial makes a connection over the wire.
func (w *Wire) Dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	down, far := w.down, w.far
	w.mu.Unlock()
	time.Sleep(far)
	if down != nil {
		return nil, down
	}
	server, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	client, near := net.Pipe()
	c := &conn{near: near, server: server, part: Commands}
	w.mu.Lock()
	w.conns = append(w.conns, c)
	w.mu.Unlock()
	sent := make(chan chunk, 10_000)
	go w.take(c, sent)
	go w.bring(c, sent)
	go w.answer(c)
	return client, nil
}

// chunk is what the client wrote at once.
type chunk struct {
	due   time.Time
	bytes []byte
}

// take reads what the client sends.
func (w *Wire) take(c *conn, sent chan<- chunk) {
	defer close(sent)
	var reader words
	pump(c.near, func(p []byte) error {
		delay, dead := w.record(c, reader.read(p))
		if !dead {
			sent <- chunk{time.Now().Add(delay), append([]byte(nil), p...)}
		}
		return nil
	})
}

// record remembers commands, and learns from them what part c is of.
func (w *Wire) record(c *conn, commands [][]string) (delay time.Duration, dead bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, command := range commands {
		if strings.EqualFold(command[0], "SUBSCRIBE") {
			c.part = Feed
		}
		w.sent = append(w.sent, Command{Words: command, At: time.Now(), Part: c.part})
	}
	return w.slow[c.part], c.numb || w.dead&c.part != 0
}

// bring carries it to the server.
func (w *Wire) bring(c *conn, sent <-chan chunk) {
	defer c.server.Close()
	for p := range sent {
		time.Sleep(time.Until(p.due))
		if gate := w.gate(c); gate != nil {
			<-gate
		}
		if _, err := c.server.Write(p.bytes); err != nil {
			return
		}
	}
}

func (w *Wire) gate(c *conn) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held[c.part]
}

// answer carries what the server says to the client.
func (w *Wire) answer(c *conn) {
	defer c.near.Close()
	pump(c.server, func(p []byte) error {
		if !w.loses(c, string(p)) {
			c.near.Write(p) // the client may have hung up: what comes is lost
		}
		return nil
	})
}

func (w *Wire) loses(c *conn, text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.numb || (w.mute|w.dead)&c.part != 0 {
		return true
	}
	if c.part != Feed {
		return false
	}
	for i, part := range w.lose {
		if strings.Contains(text, part) {
			w.lose = append(w.lose[:i], w.lose[i+1:]...)
			return true
		}
	}
	return false
}

func pump(from net.Conn, to func([]byte) error) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && to(buffer[:n]) != nil || err != nil {
			return
		}
	}
}

func parts(p Part) []Part {
	var found []Part
	for _, part := range []Part{Commands, Feed} {
		if p&part != 0 {
			found = append(found, part)
		}
	}
	return found
}

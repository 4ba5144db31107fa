package l1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/cocache/cocache/tests/redistest"
	"github.com/cocache/cocache/tests/wire"
)

// A Redis that does not answer costs the first few commands their timeout and
// later ones nothing; it is asked for by one probe at a time and used again
// within seconds of its return.
func TestBreaker(t *testing.T) {
	silences := map[string]struct{ begin, end func(*wire.Wire) }{
		"frozen": {func(p *wire.Wire) { p.Hold(wire.All) }, (*wire.Wire).Release},
		"mute":   {func(p *wire.Wire) { p.Mute(wire.All, true) }, func(p *wire.Wire) { p.Mute(wire.All, false) }},
		"gone":   {func(p *wire.Wire) { p.Down(errors.New("connection refused")); p.Cut(wire.All) }, func(p *wire.Wire) { p.Down(nil); p.Cut(wire.All) }},
	}
	for name, silence := range silences {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, func(w *world, tap *wire.Wire) {
				silence.begin(tap)
				began := time.Now()
				for i := range 100 {
					_, err := w.a.Read(ctx, fmt.Sprint(i), Ask{})
					var failed *Error
					if !errors.As(err, &failed) {
						t.Fatalf("read %d: %v", i, err)
					}
					if i >= breakAfter && (!errors.Is(err, ErrDown) || failed.OutcomeUnknown) {
						t.Fatalf("read %d: %v, want it not sent", i, err)
					}
				}
				if took := time.Since(began); took > breakAfter*time.Second {
					t.Errorf("100 reads took %s", took)
				}
				if err := w.client.Probe(ctx); !errors.Is(err, ErrDown) {
					t.Errorf("probe: %v", err)
				}
				time.Sleep(time.Minute)
				silence.end(tap)
				back := time.Now()
				for {
					if _, err := w.a.Read(ctx, "k", Ask{}); err == nil {
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
				if took := time.Since(back); took > 5*time.Second {
					t.Errorf("used again after %s", took)
				}
			})
		})
	}
}

// A caller that gives up early says nothing about Redis.
func TestBreakerIgnoresImpatience(t *testing.T) {
	bubble(t, Options{}, func(w *world, tap *wire.Wire) {
		tap.Slow(wire.All, 500*time.Millisecond)
		for range 2 * breakAfter {
			impatient, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			w.a.Read(impatient, "k", Ask{})
			cancel()
		}
		if w.client.breaker.isOpen() {
			t.Error("open")
		}
		tap.Slow(wire.All, 0)
		time.Sleep(time.Second)
	})
}

// The real thing: a stopped server, one that is busy with a script, and one
// that became a replica behind its address.
func TestBreakerOnRealRedis(t *testing.T) {
	server := redistest.Start(t, "--busy-reply-threshold", "50")
	w := newWorld(t, Options{Addresses: []string{server.Addr}, CommandTimeout: 200 * time.Millisecond})
	opened := func(what string) {
		t.Helper()
		for range 50 {
			w.a.Read(ctx, "k", Ask{Lease: true, LeaseTTL: time.Millisecond})
		}
		if !w.client.breaker.isOpen() {
			t.Errorf("%s: the breaker is closed", what)
		}
	}
	closed := func(what string) {
		t.Helper()
		deadline := time.Now().Add(20 * time.Second)
		for {
			_, err := w.a.Read(ctx, "k", Ask{Lease: true, LeaseTTL: time.Millisecond})
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v", what, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	server.Signal(t, syscall.SIGSTOP)
	opened("stopped")
	server.Signal(t, syscall.SIGCONT)
	closed("continued")

	busy, err := net.Dial("tcp", server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	fmt.Fprintf(busy, "EVAL \"while true do end\" 0\r\n")
	opened("busy")
	w.raw.Do(ctx, w.raw.B().ScriptKill().Build())
	closed("no longer busy")

	server.Do(t, "REPLICAOF", "127.0.0.1", "1")
	opened("a replica")
	server.Do(t, "REPLICAOF", "NO", "ONE")
	closed("a master again")
}

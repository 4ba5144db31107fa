// Package conformance holds the cache against its promises from outside: the Go
// API on one side, Redis and a bad wire on the other, nothing of the inside.
//
// CLAIMS.md lists every promise with how it is checked. A promise that is
// checked here is a claim in one of the tables below, one file per group of
// promises; each runs over the embedded server in virtual time and over a real
// Redis of its own in real time, so a claim waits for events, not for moments,
// and sleeps for a second at most.
package conformance

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/tests/redistest"
	"github.com/cocache/cocache/tests/wire"
)

// claim is one or several promises and the schedule that would break them.
type claim struct {
	ids   string // of CLAIMS.md
	says  string
	check func(w *world)
	where where
}

// where a claim can be checked.
type where uint8

const (
	everywhere  where = iota
	virtualTime       // it is about exact times
	realRedis         // it is about what the embedded server does not have
)

// groups are the tables, in the order of CLAIMS.md.
var groups = [][]claim{leases, stamps, flights, reads, writers, feed, telling, refreshes, failures, bounds, leaseCache}

func TestClaims(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		each(t, realRedis, func(t *testing.T, check func(*world)) {
			synctest.Test(t, func(t *testing.T) {
				server := l1.NewEmbedded()
				t.Cleanup(server.Close)
				check(newWorld(t, func() *wire.Wire { return wire.New(server.Dial) }, nil))
			})
		})
	})
	t.Run("redis", func(t *testing.T) {
		each(t, virtualTime, func(t *testing.T, check func(*world)) {
			server := redistest.Start(t)
			check(newWorld(t, func() *wire.Wire { return wire.To(server.Addr) }, server))
		})
	})
}

// each runs every claim that is not for elsewhere alone.
func each(t *testing.T, elsewhere where, run func(t *testing.T, check func(*world))) {
	for _, group := range groups {
		for _, c := range group {
			if c.where == elsewhere {
				continue
			}
			t.Run(strings.ReplaceAll(c.ids, " ", "_"), func(t *testing.T) {
				t.Parallel()
				t.Log(c.says)
				run(t, c.check)
			})
		}
	}
}

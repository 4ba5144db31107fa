package l1

import (
	"sync"
	"time"
)

// clock estimates the Redis server's clock: the last time that it told plus
// what has passed here since, by the monotonic clock. It feeds not-after only;
// nothing that decides correctness compares it with anything but the server's
// own clock.
type clock struct {
	mu     sync.Mutex
	server int64     // guarded by mu; ms, 0: never told
	heard  time.Time // guarded by mu; when server was told
}

func (c *clock) learn(server int64) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.heard = server, now
}

// after is the server's time a duration from now, in ms.
func (c *clock) after(d time.Duration) int64 {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server + (now.Sub(c.heard) + d).Milliseconds()
}

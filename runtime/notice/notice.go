// Package notice keeps log lines that requests or messages can cause from flooding
// the log.
package notice

import (
	"sync/atomic"
	"time"
)

// Every is the least time between two lines of one kind.
const Every = 10 * time.Second

// Notice is one kind of line; the zero Notice is due.
type Notice struct{ last atomic.Int64 }

// Due reports whether the line may be written now, to one of its callers.
func (n *Notice) Due() bool {
	now, last := time.Now().UnixNano(), n.last.Load()
	return now-last >= int64(Every) && n.last.CompareAndSwap(last, now)
}

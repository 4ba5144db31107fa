package cache

import (
	"sync/atomic"
	"time"
)

// noticeEvery is the least time between two log lines of one kind, where each
// read could write one.
const noticeEvery = 10 * time.Second

// notices are the kinds of log lines that reads can cause.
type notices struct {
	refused     notice // reads, by Redis
	unreadable  notice // content
	unstored    notice // what was loaded
	unreleased  notice // leases
	unrefreshed notice // values
}

// notice keeps one kind of log line from flooding the log.
type notice struct{ last atomic.Int64 }

// due reports whether the line may be written now, to one of its callers.
func (n *notice) due() bool {
	now, last := time.Now().UnixNano(), n.last.Load()
	return now-last >= int64(noticeEvery) && n.last.CompareAndSwap(last, now)
}

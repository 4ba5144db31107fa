package cache

import (
	"errors"
	"time"

	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/l2"
	"github.com/cocache/cocache/runtime/loader"
)

// startRefresh renews a copy whose refresh point has passed, in the background;
// the hit that found it is answered from the copy all the same.
func (c *Cache) startRefresh(key string, copy *l2.Copy) {
	c.start(func() { c.refresh(key, copy) }) // a closed cache refreshes nothing
}

// refresh reads L1 asking for the refresh token: the one instance of the
// cluster that gets it loads, the others take over what L1 holds.
func (c *Cache) refresh(key string, copy *l2.Copy) {
	r := read{Cache: c, source: c.loader, ctx: c.life, key: key, noted: c.stamps.Note(key),
		begin: func() bool { return c.life.Err() == nil }, overdue: func() {}}
	if c.pending.Find(key) != nil {
		return // L1 may hold what was invalidated
	}
	sent := c.l2.Now()
	reading, err := c.l1.Read(c.life, key, l1.Ask{LeaseTTL: c.policy.LeaseTTL, RefreshWindow: c.policy.RefreshWindow})
	switch {
	case err != nil:
		c.refreshFailed(copy, err)
	case c.understood(reading) != l1.Hit: // expired or invalidated: the next read loads
		if reading.Granted() {
			r.release(reading.Token)
		}
		c.counts.refreshes[refreshGone].Add(1)
		c.l2.Drop(key, r.noted)
	case reading.Granted():
		if err := r.renew(reading); err != nil {
			c.refreshFailed(copy, err)
		}
	default:
		c.counts.refreshes[refreshFollowed].Add(1)
		r.follow(reading, sent)
	}
}

// renew loads under the refresh token, in a place that is free right now. After a
// failure no instance tries again before the pause is over.
func (r *read) renew(reading l1.Reading) error {
	if !r.places.tryTake() {
		r.release(reading.Token)
		return r.places.overloaded()
	}
	defer r.places.free()
	asked := r.l2.Now()
	postpone := func() { r.postpone(reading.Token, r.pauseAfter(reading.Left-r.l2.Now().Sub(asked))) }
	loaded, err := r.run(loader.Request{Key: r.key, PreviousVersion: reading.Entry.Version, Background: true}, postpone)
	switch {
	case err != nil:
		if !errors.Is(err, errOverdue) { // whose token was given back when it became overdue
			postpone()
		}
		return r.loadError(err)
	case loaded.late:
		return &LoadTimeoutError{r.policy.Loads.Timeout}
	case loaded.NoStore:
		r.release(reading.Token)
		return nil
	}
	r.counts.refreshes[refreshLoaded].Add(1)
	r.fill(reading.Token, loaded)
	return nil
}

func (r *read) postpone(token entry.Token, pause time.Duration) {
	r.givenBack(r.l1.Postpone(r.afterwards(), r.key, token, r.policy.LeaseTTL, pause))
}

// follow takes over what L1 holds while another instance refreshes, and looks
// again when that one has had time to fill and before the value ends.
func (r *read) follow(reading l1.Reading, sent l2.Instant) {
	_, copy := r.copyOf(reading, sent)
	if reading.Left <= r.policy.RefreshWindow {
		copy.SetRefresh(r.nextLook(sent, reading.Left))
	}
	r.store(copy)
}

// refreshPause is the least time between two tries to refresh.
func (c *Cache) refreshPause() time.Duration { return max(c.policy.LeaseWait, 100*time.Millisecond) }

// pauseAfter is how long to wait after a try that failed with so much of the value's
// life left. It doubles with each try, whoever made it: it is as long as the window
// has been open.
func (c *Cache) pauseAfter(left time.Duration) time.Duration {
	return max(c.policy.RefreshWindow-left, c.refreshPause())
}

// refreshFailed leaves the copy to expire as it would have, and looks again: whether
// it may try again is then up to the token.
func (c *Cache) refreshFailed(copy *l2.Copy, err error) {
	c.counts.refreshes[refreshFailed].Add(1)
	if c.notices.unrefreshed.Due() {
		c.log.Warn("refresh failed, the value stays until it expires", "error", err)
	}
	now := c.l2.Now()
	copy.SetRefresh(c.nextLook(now, copy.L1Until.Sub(now)))
}

// nextLook is when to look again at a value with so much of its life left: when
// whoever refreshes it had time to, and before it ends.
func (c *Cache) nextLook(now l2.Instant, left time.Duration) l2.Instant {
	return now.Add(min(c.refreshPause(), left/2))
}

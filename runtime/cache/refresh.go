package cache

import (
	"errors"
	"time"

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
	if c.pending.of(key) != nil {
		return // L1 may hold what was invalidated
	}
	sent := c.l2.Now()
	reading, err := c.l1.Read(c.life, key, l1.Ask{LeaseTTL: c.policy.LeaseTTL, RefreshWindow: c.policy.RefreshWindow})
	switch {
	case err != nil:
		c.refreshFailed(key, copy, err)
	case c.understood(reading) != l1.Hit: // expired or invalidated: the next read loads
		c.counts.refreshes[refreshGone].Add(1)
		c.l2.Drop(key, r.noted)
	case reading.Granted():
		if err := r.renew(reading); err != nil {
			c.refreshFailed(key, copy, err)
		}
	default:
		c.counts.refreshes[refreshFollowed].Add(1)
		r.follow(reading, sent)
	}
}

// renew loads under the refresh token, in a place that is free right now.
func (r *read) renew(reading l1.Reading) error {
	if !r.places.tryTake() {
		r.release(reading.Token)
		return r.places.overloaded()
	}
	defer r.places.free()
	loaded, err := r.run(loader.Request{Key: r.key, PreviousVersion: reading.Entry.Version, Background: true},
		func() { r.release(reading.Token) })
	if err != nil {
		if !errors.Is(err, errOverdue) {
			r.release(reading.Token)
		}
		return r.loadError(err)
	}
	if loaded.NoStore {
		r.release(reading.Token)
		return nil
	}
	r.counts.refreshes[refreshLoaded].Add(1)
	r.fill(reading.Token, loaded)
	return nil
}

// follow takes over what L1 holds while another instance refreshes, and looks
// again when that one has had time to fill and before the value ends.
func (r *read) follow(reading l1.Reading, sent l2.Instant) {
	_, copy := r.copyOf(reading, sent)
	if reading.Left <= r.policy.RefreshWindow {
		copy.SetRefresh(sent.Add(min(r.refreshPause(), reading.Left/2)))
	}
	r.store(copy)
}

// refreshPause is the least time between two tries to refresh.
func (c *Cache) refreshPause() time.Duration { return max(c.policy.LeaseWait, 100*time.Millisecond) }

// refreshFailed leaves the copy to expire as it would have, and tries again
// after a pause if that is before its end.
func (c *Cache) refreshFailed(key string, copy *l2.Copy, err error) {
	c.counts.refreshes[refreshFailed].Add(1)
	c.log.Warn("refresh failed, the value stays until it expires", "error", err)
	if again := c.l2.Now().Add(c.refreshPause()); again < copy.Until {
		copy.SetRefresh(again)
	}
}

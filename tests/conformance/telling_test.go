package conformance

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cocache/cocache/lua"
	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/policy"
	"github.com/cocache/cocache/tests/wire"
)

// Telling where scripts may not (E, F), and messages that are lost (F).
var telling = []claim{
	{"F22", "at start a script on one key asks whether it may publish on a channel of another slot", func(w *world) {
		a := w.instance()
		at := slices.IndexFunc(a.wire.Sent(), func(c wire.Command) bool {
			return c.Is("EVAL") && c.Words[1] == lua.Probe && c.Words[3] == "cocache:!probe:{a}" && c.Words[5] == "cocache:!probe:{b}"
		})
		if at < 0 {
			w.Fatalf("sent %v", a.sent())
		}
	}, everywhere},

	{"E14 F19 F23", "where scripts may not publish, each write is told right after its script", func(w *world) {
		w.allow("&cocache:inv:n")
		a, b, told := w.instance(mayPublishOnly), w.instance(), w.listen()
		w.source.set("k", "v1")
		b.want("k", "v1")
		a.sends("put publish", func() { a.put("k", "v2") })
		w.until("b hears it", func() bool { return text(b.get("k")) == "v2" })
		a.sends("invalidate publish", func() { a.drop("k", "l") })
		w.until("both are told", func() bool { return strings.Join(told.keys(), " ") == "k k,l" })
		w.wantHeld("k", "")
	}, realRedis},

	{"E15", "a write that nobody could be told of has failed, though it was done", func(w *world) {
		w.allow("&cocache:inv:n")
		a := w.instance(mayPublishOnly)
		w.allow("resetchannels")
		w.wantFailed(a.Put(ctx, "k", []byte("v"), cache.PutOptions{}), true)
		if o := a.InvalidateAll(ctx, []string{"k"})[0]; !o.Queued {
			w.Fatalf("the invalidation: %+v", o)
		}
		told := w.listen()
		w.allow("&cocache:inv:n")
		w.until("it is tried again, and told", func() bool { return len(told.keys()) > 0 })
	}, realRedis},

	{"F24", "a write whose answer is lost is told all the same, at once and again later", func(w *world) {
		w.allow("&cocache:inv:n")
		a, told := w.instance(mayPublishOnly, func(o *options) { o.commandTimeout = 300 * time.Millisecond }), w.listen()
		a.putUnanswered("k", "v")
		w.until("everybody is told twice", func() bool { return strings.Join(told.keys(), " ") == "k k" })
	}, realRedis},

	{"E10", "after a write of unknown outcome own messages count in that mode too: the second comes when the write can no longer begin", func(w *world) {
		w.allow("&cocache:inv:n")
		a := w.instance(mayPublishOnly, func(o *options) { o.commandTimeout = 300 * time.Millisecond })
		a.putUnanswered("k", "v")
		a.want("k", "v")
		w.until("the second message drops the copy", func() bool { return a.get("k").Source != cache.FromL2 })
	}, realRedis},

	{"E4", "values put together go in one round trip, the last for each key, are each told, and fail alone", func(w *world) {
		a, told := w.instance(), w.listen()
		a.connect()
		var errs []error
		a.sends("put put", func() {
			errs = a.PutAll(ctx, []cache.Put{{Key: "k", Value: []byte("v1")}, {Key: "bad", Value: []byte("\xff")},
				{Key: "l", Value: []byte("l"), PutOptions: cache.PutOptions{TTL: time.Hour}}, {Key: "k", Value: []byte("v2")}})
		})
		var invalid *cache.InvalidError
		if errs[0] != nil || !errors.As(errs[1], &invalid) || errs[2] != nil || errs[3] != nil {
			w.Fatalf("errors %v", errs)
		}
		a.want("k", "v2")
		w.near("life of l", w.life("l"), time.Hour)
		w.until("each is told", func() bool { return strings.Join(told.keys(), " ") == "l k" })
	}, everywhere},

	{"I5", "a message lost on a connection that answers is missed within a few heartbeats", func(w *world) {
		a, b := w.instance(heartbeat(100*time.Millisecond)), w.instance(heartbeat(100*time.Millisecond))
		w.source.set("k", "v1")
		b.connect()
		time.Sleep(300 * time.Millisecond) // until b knows a
		b.want("k", "v1")
		b.wire.Lose("told to nobody")
		w.source.set("k", "v2")
		a.drop("k", "told to nobody")
		w.until("b misses it", func() bool { return text(b.get("k")) == "v2" })
		w.until("by what a announces", func() bool {
			b.wire.Lose("told to nobody") // a neighbour lost with it may have told before
			a.drop("told to nobody")
			time.Sleep(300 * time.Millisecond)
			return b.Stats().Resets["audit"] > 0
		})
	}, everywhere},

	{"I5 F14", "while a loss could go unnoticed copies live two heartbeats", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.Local.MaxAge = time.Hour }), func(o *options) { o.Policy.TTL = 2 * time.Hour })
		w.near("life of a copy", a.get("k").LocalTTL, 10*time.Second)
		w.source.set("l", "v")
		time.Sleep(20 * time.Second)
		w.near("life of a copy", a.get("l").LocalTTL, time.Hour)
	}, virtualTime},
}

// mayPublishOnly makes an instance a user of its own.
func mayPublishOnly(o *options) { o.username = "teller" }

// putUnanswered makes a put that is done but whose answer is lost.
func (i *instance) putUnanswered(key, value string) {
	i.w.Helper()
	i.connect()
	i.wire.Mute(wire.Commands, true)
	writing := i.w.later(func() error { return i.Put(ctx, key, []byte(value), cache.PutOptions{}) })
	i.w.until("the put is done", func() bool { return i.w.holds(key) == "V"+value })
	i.wire.Mute(wire.Commands, false)
	i.w.wantFailed(writing.wait(), true)
}

// allow makes that user, or changes on which channels it may publish.
func (w *world) allow(channels string) {
	w.Helper()
	w.do("ACL", "SETUSER", "teller", "on", "nopass", "~*", "+@all", channels)
}

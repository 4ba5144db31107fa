package conformance

import (
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/channel"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/frame"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/policy"
	"github.com/cocache/cocache/tests/wire"
)

// Invalidation channel (F).
var feed = []claim{
	{"F1", "a process has one subscription connection for all its namespaces, and each hears its own messages alone", func(w *world) {
		p := w.process(0)
		n, other := p.open("n"), p.open("other")
		m := w.do("CLIENT", "LIST", "TYPE", "pubsub")
		if list, err := m.ToString(); err != nil || strings.Count(list, "name=cocache") != 1 {
			w.Fatalf("subscription connections: %v\n%s", err, list)
		}
		n.put("k", "v")
		other.put("k", "v")
		n.want("k", "v")
		other.want("k", "v")
		w.publish("k")
		n.catchesUp()
		n.sends("read", func() { n.want("k", "v") })
		other.sends("", func() { other.want("k", "v") })
	}, realRedis},

	{"F2", "prefix and namespace make a channel; the same namespace under another prefix hears nothing of it", func(w *world) {
		a := w.instance()
		other := w.instance(func(o *options) { o.prefix = "p:" })
		for _, name := range []string{"cocache:inv:n", "p:inv:n"} {
			m := w.do("PUBSUB", "CHANNELS", name)
			if channels, err := m.AsStrSlice(); err != nil || len(channels) != 1 {
				w.Fatalf("channels %s: %q, %v", name, channels, err)
			}
		}
		a.put("k", "v")
		a.want("k", "v")
		other.drop("k")
		a.catchesUp()
		a.sends("", func() { a.want("k", "v") })
	}, everywhere},

	{"F3", "a burst past the output buffer costs the connection and its messages, and the new connection mends it", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v1")
		a.want("k", "v1")
		w.do("CONFIG", "SET", "client-output-buffer-limit", "pubsub 32768 0 0")
		w.source.set("k", "v2")
		burst := []string{"k"}
		for len(burst) < 300 {
			burst = append(burst, strings.Repeat("x", 4000)+strconv.Itoa(len(burst)))
		}
		b.drop(burst...)
		w.until("the copy goes", func() bool { return text(a.get("k")) == "v2" })
		if n := a.Stats().Received; n != 0 {
			w.Fatalf("%d messages arrived", n)
		}
	}, realRedis},

	{"F4 H25", "what was read while the subscription was lost goes when the new one is confirmed", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v1")
		a.loseFeed()
		a.want("k", "v1")
		w.source.set("k", "v2")
		b.drop("k")
		if found := a.get("k"); found.Source != cache.FromL2 {
			w.Fatalf("before the confirmation: %+v", found)
		}
		a.wire.Release()
		w.until("the copy goes", func() bool { return text(a.get("k")) == "v2" })
		if s := a.Stats(); s.Received != 0 || s.Resets["subscribed"] != 2 {
			w.Fatalf("%d messages, resets %v", s.Received, s.Resets)
		}
	}, everywhere},

	{"F5", "a namespace opens when its subscription is confirmed, so that the reset costs no copy", func(w *world) {
		p := w.process(0)
		p.wire.Hold(wire.Feed)
		var n *instance
		opening := w.later(func() (err error) { n, err = p.tryOpen("n"); return err })
		w.until("it subscribes", func() bool { return asked(p.wire, "SUBSCRIBE") > 0 })
		w.moment()
		if opening.isDone() {
			w.Fatal("it opened before the confirmation")
		}
		p.wire.Release()
		if err := opening.wait(); err != nil {
			w.Fatal(err)
		}
		n.put("k", "v")
		n.want("k", "v")
		n.catchesUp()
		n.sends("", func() { n.want("k", "v") })
	}, everywhere},

	{"F5 F13", "without a confirmation a namespace opens after command-timeout, and its copies live one heartbeat", func(w *world) {
		p := w.process(300 * time.Millisecond)
		p.wire.Hold(wire.Feed)
		began := time.Now()
		n := p.open("n")
		if took := time.Since(began); took != 300*time.Millisecond {
			w.Fatalf("opened after %v", took)
		}
		n.put("k", "v")
		if found := n.get("k"); found.LocalTTL != 5*time.Second {
			w.Fatalf("a copy for %v", found.LocalTTL)
		}
	}, virtualTime},

	{"F6", "each new connection subscribes again, and each confirmation is a reset", func(w *world) {
		a := w.instance()
		a.put("k", "v")
		for n := uint64(2); n <= 3; n++ {
			a.loseFeed()
			a.want("k", "v")
			a.wire.Release()
			w.until("the copy goes", func() bool { return a.get("k").Source != cache.FromL2 })
			if resets := a.Stats().Resets["subscribed"]; resets != n {
				w.Fatalf("%d confirmations, want %d", resets, n)
			}
		}
	}, everywhere},

	{"F7", "opening a namespace resets no other", func(w *world) {
		p := w.process(0)
		n := p.open("n")
		n.put("k", "v")
		n.want("k", "v")
		p.open("other")
		n.catchesUp()
		n.sends("", func() { n.want("k", "v") })
	}, everywhere},

	{"F8", "the subscription connection is asked for a sign of life every heartbeat", func(w *world) {
		a := w.instance(heartbeat(100 * time.Millisecond))
		began := time.Now()
		w.until("ten pings", func() bool { return asked(a.wire, "PING") >= 10 })
		if took := time.Since(began); w.virtual && took > 1100*time.Millisecond {
			w.Fatalf("ten pings in %v", took)
		}
	}, everywhere},

	{"F9 H25", "a subscription that dies in silence is noticed, costs every copy, and is made anew", func(w *world) {
		a, b := w.instance(heartbeat(100*time.Millisecond)), w.instance()
		w.source.set("k", "v1")
		a.want("k", "v1")
		a.wire.Dead(wire.Feed, true)
		w.source.set("k", "v2")
		b.drop("k")
		before := asked(a.wire, "SUBSCRIBE")
		w.until("the copy goes", func() bool { return text(a.get("k")) == "v2" })
		w.until("another subscription", func() bool { return asked(a.wire, "SUBSCRIBE") > before })
		a.wire.Dead(wire.Feed, false)
		a.hearsAgain()
	}, everywhere},

	{"F10", "a subscription that dies in silence is noticed within a heartbeat and a command-timeout", func(w *world) {
		a := w.instance()
		for range 5 {
			time.Sleep(1700 * time.Millisecond)
			before := a.Stats().Resets["heartbeat"]
			a.wire.Dead(wire.Feed, true)
			time.Sleep(6*time.Second + time.Millisecond)
			if a.Stats().Resets["heartbeat"] == before {
				w.Fatal("not noticed")
			}
			a.wire.Dead(wire.Feed, false)
			a.hearsAgain()
		}
	}, virtualTime},

	{"F13", "while a subscription is not confirmed copies live one heartbeat at most, and nothing is reset again", func(w *world) {
		a := w.instance(heartbeat(200 * time.Millisecond))
		a.put("k", "v")
		a.loseFeed()
		before := a.Stats().Resets["heartbeat"]
		for range 4 {
			if found := a.get("k"); found.Source != cache.FromL1 || found.LocalTTL > 200*time.Millisecond {
				w.Fatalf("a copy from %v for %v", found.Source, found.LocalTTL)
			}
			time.Sleep(200 * time.Millisecond)
		}
		if n := a.Stats().Resets["heartbeat"] - before; n != 0 {
			w.Fatalf("%d resets", n)
		}
	}, everywhere},

	{"F14", "no copy outlives local.max-age, even if nobody is told of a change", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.Local.MaxAge = 500 * time.Millisecond }))
		w.source.set("k", "v1")
		a.want("k", "v1")
		w.source.set("k", "v2")
		w.do("DEL", at("k"))
		time.Sleep(500 * time.Millisecond)
		a.want("k", "v2")
	}, everywhere},

	{"F15", "a message that cannot be read resets every namespace of its channel, and no other", func(w *world) {
		p := w.process(0)
		here, sibling, other := p.open("n"), w.instance(), p.open("other")
		whole := string(strangers("else"))
		other.put("k", "v")
		other.want("k", "v")
		here.put("k", "v")
		sibling.catchesUp()
		for name, message := range map[string]string{
			"empty": "", "text": "hello", "unknown version": "\x63" + whole[1:], "unknown kind": whole[:1] + "\x63" + whole[2:],
			"truncated": whole[:len(whole)-1], "trailing byte": whole + "x",
		} {
			here.want("k", "v")
			sibling.want("k", "v")
			w.do("PUBLISH", l1.DefaultKeyPrefix+"inv:n", message)
			for _, i := range []*instance{here, sibling} {
				w.until(name+": the copy goes", func() bool { return i.get("k").Source != cache.FromL2 })
			}
		}
		other.sends("", func() { other.want("k", "v") })
	}, everywhere},

	{"F16 F17", "a frame of a later version takes its keys' copies with it, whatever it says; version 2 is a reset", func(w *world) {
		a := w.instance()
		for version := byte(2); version < 5; version++ {
			w.source.set("k", "v1")
			a.drop("k")
			a.want("k", "v1")
			w.source.set("k", "v2")
			w.do("DEL", at("k"))
			later := strangers("k")
			later[0] = version
			w.do("PUBLISH", l1.DefaultKeyPrefix+"inv:n", string(later))
			w.until("the copy goes", func() bool { return text(a.get("k")) == "v2" })
		}
	}, everywhere},

	{"F18", "a frame without keys changes nothing", func(w *world) {
		a := w.instance()
		a.put("k", "v")
		a.want("k", "v")
		before := a.Stats().Resets
		w.publish()
		a.catchesUp()
		a.sends("", func() { a.want("k", "v") })
		if after := a.Stats().Resets; !maps.Equal(after, before) {
			w.Fatalf("resets: %v", after)
		}
	}, everywhere},

	{"F19", "an instance publishes a frame without keys when it opens, and does not open where it may not", func(w *world) {
		told := w.listen()
		node := entry.NewNodeID()
		w.instance(as(node))
		w.until("its frame", func() bool { return told.from(node) > 0 })
		if keys := told.keys(); len(keys) > 0 {
			w.Fatalf("it named %q", keys)
		}
		if w.server == nil {
			return // which forbids nothing
		}
		w.do("ACL", "SETUSER", "mute", "on", "nopass", "~*", "&*", "+@all", "-publish")
		_, err := w.open(func(o *options) { o.username = "mute" })
		if err == nil || !strings.Contains(err.Error(), "NOPERM") {
			w.Fatalf("opened with %v", err)
		}
	}, everywhere},

	{"F20", "a writer that never learns of its own write has told everybody of it", func(w *world) {
		a, told := w.instance(), w.listen()
		a.connect()
		a.wire.Mute(wire.Commands, true)
		putting := w.later(func() error { return a.Put(ctx, "put", []byte("v"), cache.PutOptions{}) })
		w.until("the put is carried out", func() bool { return w.holds("put") == "Vv" })
		a.wire.Down(errCut)
		a.wire.Cut(wire.Commands)
		told.want("put")
		w.wantFailed(putting.wait(), true)
		if got := strings.Join(a.sent(), " "); got != "put" {
			w.Fatalf("sent %q", got)
		}
	}, everywhere},

	{"F25", "a message too many costs a copy and nothing else", func(w *world) {
		a := w.instance()
		w.source.set("k", "v")
		load := w.hold("k")
		slow := a.begin("k")
		load.wait()
		w.publish("k")
		a.catchesUp()
		load.release()
		slow.want("v")
		w.wantHeld("k", "Vv")
		for range 3 {
			w.publish("k")
			a.catchesUp()
			a.sends("read", func() { a.want("k", "v") })
		}
		if n := w.source.count("k"); n != 1 {
			w.Fatalf("%d loads", n)
		}
	}, everywhere},

	{"F26", "fills and refreshes tell nobody", func(w *world) {
		a := w.instance(with(func(p *policy.Policy) { p.TTL, p.RefreshWindow = time.Minute, time.Minute-100*time.Millisecond }))
		told := w.listen()
		w.source.set("k", "v")
		a.want("k", "v")
		time.Sleep(100 * time.Millisecond)
		w.until("a refresh", func() bool { a.want("k", "v"); return a.Stats().Refreshes["loaded"] > 0 })
		a.GetAll(ctx, []string{"k", "none"})
		a.put("put", "v")
		told.want("put")
	}, everywhere},

	{"F27", "a reader that waits for another's load hears of it without the channel", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v")
		load := w.hold("k")
		a.begin("k")
		load.wait()
		b.loseFeed()
		w.know()
		b.wire.Forget()
		waiting := b.begin("k")
		w.until("it looks again", func() bool { return len(b.sent()) > 1 })
		load.release()
		if found := waiting.want("v"); found.Source != cache.FromL1 || !found.Waited {
			w.Fatalf("answered %+v", found)
		}
	}, everywhere},
}

// process has several namespaces on one client and one feed.
type process struct {
	w      *world
	wire   *wire.Wire
	log    *logbook
	client *l1.Client
	feed   *channel.Subscriber
}

func (w *world) process(commandTimeout time.Duration) *process {
	p := &process{w: w, wire: w.wire(), log: &logbook{}}
	p.client = l1.Open(l1.Options{Addresses: []string{"wire"}, Dial: p.wire.Dial, Logger: slog.New(p.log), CommandTimeout: commandTimeout})
	p.feed = channel.Open(p.client, channel.Options{Logger: slog.New(p.log), Timeout: commandTimeout})
	w.Cleanup(func() {
		p.feed.Close()
		p.client.Close()
	})
	return p
}

// open opens a namespace without a loader.
func (p *process) open(name string) *instance {
	p.w.Helper()
	i, err := p.tryOpen(name)
	if err != nil {
		p.w.Fatal(err)
	}
	return i
}

func (p *process) tryOpen(name string) (*instance, error) {
	node := entry.NewNodeID()
	c, err := cache.New(ctx, cache.Options{Name: name, Node: node, Logger: slog.New(p.log), Feed: p.feed,
		L1: p.client.Namespace(name, node), Policy: policy.Policy{Codec: policy.String}})
	if err != nil {
		return nil, err
	}
	p.w.Cleanup(func() {
		p.wire.Release()
		c.Close(ctx)
	})
	return &instance{Cache: c, w: p.w, name: name, prefix: l1.DefaultKeyPrefix, wire: p.wire, log: p.log}, nil
}

// heartbeat makes an instance notice a bad wire soon.
func heartbeat(every time.Duration) func(*options) {
	return func(o *options) { o.Heartbeat, o.commandTimeout = every, 300*time.Millisecond }
}

// asked counts a command on the subscription connections.
func asked(over *wire.Wire, name string) (n int) {
	for _, c := range over.Sent() {
		if c.Part == wire.Feed && c.Is(name) {
			n++
		}
	}
	return n
}

// catchesUp waits until an instance has heard what was published before: when a copy
// goes that it is told of last.
func (i *instance) catchesUp() {
	i.w.Helper()
	i.get("told last")
	i.w.do("PUBLISH", i.prefix+"inv:"+i.name, string(strangers("told last")))
	i.w.until("the last message", func() bool { return i.get("told last").Source != cache.FromL2 })
}

// hearsAgain waits until messages arrive that did not for a while.
func (i *instance) hearsAgain() {
	i.w.Helper()
	before := i.Stats().Received
	i.w.until("messages arrive again", func() bool {
		i.w.publish("again")
		return i.Stats().Received > before
	})
}

// strangers is a frame of an instance that nobody knows.
func strangers(keys ...string) []byte {
	return frame.Append(nil, frame.Frame{Sender: entry.NewNodeID(), Number: 1, Keys: keys})
}

// loseFeed cuts the subscription and keeps it from coming back until the wire is
// released.
func (i *instance) loseFeed() {
	i.w.Helper()
	i.get("before the loss")
	i.wire.Hold(wire.Feed)
	i.wire.Cut(wire.Feed)
	i.w.until("the loss is noticed", func() bool { return i.get("before the loss").Source != cache.FromL2 })
}

// from counts the frames of a sender.
func (l *listener) from(node entry.NodeID) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.frames {
		if f.Sender == node {
			n++
		}
	}
	return n
}

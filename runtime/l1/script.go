package l1

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cocache/cocache/lua"
	"github.com/redis/rueidis"
)

// script is one of package lua's, with the contract that its caller here
// assumes; a test holds it against the script's own header.
type script struct {
	verb, source, sha string
	args              []string
	replies           map[string][]string
	variadic          bool
}

func newScript(source, verb string, args []string, replies map[string][]string) *script {
	sum := sha1.Sum([]byte(source))
	return &script{verb: verb, source: source, sha: hex.EncodeToString(sum[:]), args: args, replies: replies,
		variadic: verb == "invalidate"}
}

// The tags of replies.
const (
	tagLate        = "late"
	tagValue       = "value"
	tagLease       = "lease"
	tagHeld        = "held"
	tagMiss        = "miss"
	tagUnreadable  = "unreadable"
	tagNewer       = "newer"
	tagForeignType = "foreign-type"
	tagStored      = "stored"
	tagRefused     = "refused"
	tagReleased    = "released"
	tagChanged     = "changed"
	tagDone        = "done"
)

var (
	now = []string{"now"}

	readScript = newScript(lua.Read, "read",
		[]string{"not-after", "token", "lease-ttl", "refresh-window"},
		map[string][]string{
			tagLate: now, tagValue: {"now", "entry", "refresh"}, tagLease: {"now", "copy"}, tagHeld: {"now", "left", "copy"},
			tagMiss: now, tagUnreadable: {"now", "content"}, tagNewer: now, tagForeignType: now,
		})
	fillScript = newScript(lua.Fill, "fill",
		[]string{"token", "state", "ttl", "tail"},
		map[string][]string{tagStored: now, tagRefused: now})
	releaseScript = newScript(lua.Release, "release",
		[]string{"token", "age"},
		map[string][]string{tagReleased: now, tagRefused: now})
	reclaimScript = newScript(lua.Reclaim, "reclaim",
		[]string{"not-after", "sha1", "token", "lease-ttl"},
		map[string][]string{tagLate: now, tagLease: now, tagChanged: now})
	putScript = newScript(lua.Put, "put",
		[]string{"not-after", "channel", "frame", "state", "ttl", "tail"},
		map[string][]string{tagLate: now, tagStored: now})
	invalidateScript = newScript(lua.Invalidate, "invalidate",
		[]string{"not-after", "channel", "frame", "stale-ttl"},
		map[string][]string{tagLate: now, tagDone: now})
	probeScript = newScript(lua.Probe, "probe",
		[]string{"not-after", "channel"},
		map[string][]string{tagLate: now, tagDone: now})
)

// fenced reports whether the script takes a not-after as its first argument.
func (s *script) fenced() bool { return s.args[0] == "not-after" }

// call is one run of a script; args are those after a not-after.
type call struct {
	*script
	keys, args []string
}

// reply is a script's answer: its tag, the server's clock, and the rest.
type reply struct {
	tag  string
	now  int64
	rest []rueidis.RedisMessage
}

// do runs calls in one pipelined round trip; none is none. The errors are *Error.
func (c *Client) do(caller context.Context, calls ...call) ([]reply, []error) {
	if len(calls) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(caller, c.opts.CommandTimeout)
	defer cancel()
	conn := c.conn.Load()
	if why := c.unsendable(ctx, conn); why != nil {
		return make([]reply, len(calls)), failures(calls, why)
	}
	replies, errs := c.attempt(ctx, conn, calls)
	late := indexes(errs, func(err error) bool { return errors.Is(err, ErrLate) })
	if len(late) > 0 && ctx.Err() == nil {
		// The answer came in time, so it was our estimate of the server's
		// clock that was wrong; it has been learnt, and nothing ran.
		again, againErrs := c.attempt(ctx, conn, pick(calls, late))
		for j, i := range late {
			replies[i], errs[i] = again[j], againErrs[j]
		}
	}
	if !conn.cluster && !impatient(caller, ctx) {
		c.judge(errs)
	}
	for i, err := range errs {
		if err != nil {
			errs[i] = failure(calls[i].verb, err)
		}
	}
	return replies, errs
}

// one is do for a single call.
func (c *Client) one(ctx context.Context, call call) (reply, error) {
	replies, errs := c.do(ctx, call)
	return replies[0], errs[0]
}

// attempt sends the calls once; the errors are raw. No call may begin after
// ctx ends, when the caller gives up: ctx has a deadline.
func (c *Client) attempt(ctx context.Context, conn *connection, calls []call) ([]reply, []error) {
	replies, errs := make([]reply, len(calls)), make([]error, len(calls))
	deadline, _ := ctx.Deadline()
	notAfter := strconv.FormatInt(c.clock.after(time.Until(deadline)), 10)
	for i, result := range conn.run(ctx, calls, notAfter) {
		if replies[i], errs[i] = parse(calls[i].script, result); errs[i] != nil {
			continue
		}
		c.clock.learn(replies[i].now)
		if replies[i].tag == tagLate {
			errs[i] = ErrLate
		}
	}
	return replies, errs
}

func failures(calls []call, err error) []error {
	errs := make([]error, len(calls))
	for i, call := range calls {
		errs[i] = failure(call.verb, err)
	}
	return errs
}

func indexes[T any](items []T, is func(T) bool) []int {
	var found []int
	for i, item := range items {
		if is(item) {
			found = append(found, i)
		}
	}
	return found
}

func pick[T any](items []T, at []int) []T {
	picked := make([]T, len(at))
	for j, i := range at {
		picked[j] = items[i]
	}
	return picked
}

// run sends the calls by hash; those that the server answers NOSCRIPT, which
// proves that nothing ran, it sends once more by source.
func (conn *connection) run(ctx context.Context, calls []call, notAfter string) []rueidis.RedisResult {
	results := conn.send(ctx, calls, notAfter, conn.byHash)
	unknown := indexes(results, func(r rueidis.RedisResult) bool {
		e, ok := rueidis.IsRedisErr(r.Error())
		return ok && e.IsNoScript()
	})
	if len(unknown) == 0 {
		return results
	}
	for j, r := range conn.send(ctx, pick(calls, unknown), notAfter, conn.bySource) {
		results[unknown[j]] = r
	}
	return results
}

type build func(c call, notAfter string) rueidis.Completed

func (conn *connection) send(ctx context.Context, calls []call, notAfter string, build build) []rueidis.RedisResult {
	if len(calls) == 1 {
		return []rueidis.RedisResult{conn.Do(ctx, build(calls[0], notAfter))}
	}
	commands := make(rueidis.Commands, len(calls))
	for i, call := range calls {
		commands[i] = build(call, notAfter)
	}
	return conn.DoMulti(ctx, commands...)
}

func (conn *connection) byHash(c call, notAfter string) rueidis.Completed {
	b := conn.B().Evalsha().Sha1(c.sha).Numkeys(int64(len(c.keys))).Key(c.keys...)
	if c.fenced() {
		return b.Arg(notAfter).Arg(c.args...).Build()
	}
	return b.Arg(c.args...).Build()
}

func (conn *connection) bySource(c call, notAfter string) rueidis.Completed {
	b := conn.B().Eval().Script(c.source).Numkeys(int64(len(c.keys))).Key(c.keys...)
	if c.fenced() {
		return b.Arg(notAfter).Arg(c.args...).Build()
	}
	return b.Arg(c.args...).Build()
}

// parse checks a reply against the script's contract.
func parse(s *script, r rueidis.RedisResult) (reply, error) {
	message, err := r.ToMessage()
	if err != nil {
		return reply{}, err
	}
	parts, err := message.ToArray()
	if err != nil || len(parts) < 2 {
		return reply{}, fmt.Errorf("odd reply of %s: %d parts, %v", s.verb, len(parts), err)
	}
	tag, err1 := parts[0].ToString()
	clock, err2 := parts[1].ToString()
	server, err3 := strconv.ParseInt(clock, 10, 64)
	shape, known := s.replies[tag]
	if err1 != nil || err2 != nil || err3 != nil || !known || len(shape) != len(parts)-1 {
		return reply{}, fmt.Errorf("odd reply of %s: tag %q, clock %q, %d parts", s.verb, tag, clock, len(parts))
	}
	return reply{tag: tag, now: server, rest: parts[2:]}, nil
}

package l1

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cocache/cocache/runtime/audit"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/frame"
	"github.com/cocache/cocache/runtime/policy"
)

// Namespace is one tenant's part of L1, seen from one node.
type Namespace struct {
	client  *Client
	node    entry.NodeID
	tokens  *entry.Tokens
	prefix  string // of every key
	channel string
	sender  *audit.Sender // of its frames
}

// Namespace opens a namespace. The empty tag in its keys makes Redis Cluster
// hash whole keys, so that braces in a tenant's key mean nothing.
func (c *Client) Namespace(name string, node entry.NodeID) *Namespace {
	return &Namespace{
		client:  c,
		node:    node,
		tokens:  entry.NewTokens(node),
		prefix:  c.opts.KeyPrefix + "{}" + name + ":",
		channel: c.opts.KeyPrefix + "inv:" + name,
		sender:  audit.NewSender(time.Now()),
	}
}

// Channel is where the namespace's invalidations are published.
func (n *Namespace) Channel() string { return n.channel }

// Kind is what a read found.
type Kind uint8

const (
	Miss        Kind = iota // nothing, and no lease was asked for
	Hit                     // a value or negative entry
	Leased                  // nothing; the lease is now ours
	Held                    // nothing; another holds the lease
	Unreadable              // bytes that are not an entry
	Newer                   // an entry of a later format
	ForeignType             // a Redis type other than string
)

// Ask is what a read should take if it can.
type Ask struct {
	Lease         bool          // take the lease on a miss
	LeaseTTL      time.Duration // life of the lease or refresh token
	RefreshWindow time.Duration // > 0: take the refresh token when no more is left
}

// Reading is the answer to a read.
type Reading struct {
	Kind    Kind
	Entry   entry.Entry   // of a Hit
	Left    time.Duration // of a Hit its remaining life, policy.Forever without end; of a Held lease
	Token   entry.Token   // of a lease or refresh granted; else zero
	Stale   *Copy         // beside a lease, ours or another's, where one lives; else nil
	Content string        // of a Hit, and of what is Unreadable: the bytes as they are
}

// Copy is an invalidated value that may still be shown to readers who would
// otherwise wait.
type Copy struct {
	Entry entry.Entry
	Age   time.Duration // since it was invalidated
}

// Granted reports whether the read was given a lease or refresh token.
func (r Reading) Granted() bool { return r.Token != entry.Token{} }

// Read reads a key, taking what ask names in the same step.
func (n *Namespace) Read(ctx context.Context, key string, ask Ask) (Reading, error) {
	call, token := n.readCall(key, ask)
	r, err := n.client.one(ctx, call)
	if err != nil {
		return Reading{}, err
	}
	return reading(r, token)
}

func (n *Namespace) readCall(key string, ask Ask) (call, entry.Token) {
	var token entry.Token
	text := ""
	if ask.Lease || ask.RefreshWindow > 0 {
		token = n.tokens.Next()
		text = string(token[:])
	}
	return call{readScript, n.keys(key),
		[]string{text, milliseconds(ask.LeaseTTL), milliseconds(ask.RefreshWindow)}}, token
}

func reading(r reply, token entry.Token) (Reading, error) {
	switch r.tag {
	case tagValue:
		return hit(r, token)
	case tagLease:
		stale, err := staleCopy(r, 0)
		return Reading{Kind: Leased, Token: token, Stale: stale}, err
	case tagHeld:
		left, err1 := r.rest[0].AsInt64()
		stale, err2 := staleCopy(r, 1)
		return Reading{Kind: Held, Left: time.Duration(left) * time.Millisecond, Stale: stale}, errors.Join(err1, err2)
	case tagUnreadable:
		content, err := r.rest[0].ToString()
		return Reading{Kind: Unreadable, Content: content}, err
	case tagNewer:
		return Reading{Kind: Newer}, nil
	case tagForeignType:
		return Reading{Kind: ForeignType}, nil
	default:
		return Reading{Kind: Miss}, nil
	}
}

// staleCopy is the stale value in a reply; nil when there is none, or none that
// can be read.
func staleCopy(r reply, at int) (*Copy, error) {
	content, err := r.rest[at].ToString()
	if err != nil || content == "" {
		return nil, err
	}
	e, err := entry.Decode(content)
	if err != nil {
		return nil, nil // as good as none: the reader waits or loads
	}
	return &Copy{Entry: e, Age: time.Duration(max(r.now-e.InvalidatedAt, 0)) * time.Millisecond}, nil
}

func hit(r reply, token entry.Token) (Reading, error) {
	content, err1 := r.rest[0].ToString()
	refresh, err2 := r.rest[1].ToString()
	if err1 != nil || err2 != nil {
		return Reading{}, failure(readScript.verb, fmt.Errorf("odd reply: %w, %w", err1, err2))
	}
	e, err := entry.Decode(content)
	if err != nil { // the script knows only the header's outline
		return Reading{Kind: Unreadable, Content: content}, nil
	}
	reading := Reading{Kind: Hit, Entry: e, Left: policy.Forever, Content: content}
	if left, ends := e.Left(r.now); ends {
		reading.Left = left
	}
	if refresh == "granted" {
		reading.Token = token
	}
	return reading, nil
}

// Fill is what a load brought.
type Fill struct {
	State   entry.State   // Value or Negative
	TTL     time.Duration // or policy.Forever
	Version uint64
	Body    entry.Body
}

// Fill stores f if the key still holds exactly the token; stored is false when
// it does not.
func (n *Namespace) Fill(ctx context.Context, key string, token entry.Token, f Fill) (stored bool, err error) {
	call, err := n.fillCall(key, token, f)
	if err != nil {
		return false, err
	}
	r, err := n.client.one(ctx, call)
	return r.tag == tagStored, err
}

func (n *Namespace) fillCall(key string, token entry.Token, f Fill) (call, error) {
	tail, err := n.tail(f)
	return call{fillScript, n.keys(key), []string{string(token[:]), string(f.State), ttl(f.TTL), tail}}, err
}

// Release gives a token back unused.
func (n *Namespace) Release(ctx context.Context, key string, token entry.Token) error {
	return n.giveBack(ctx, key, token, "-1")
}

// Postpone gives a refresh token back unused, but lets nobody take one before the
// pause is over; leaseTTL is what the token was asked for with.
func (n *Namespace) Postpone(ctx context.Context, key string, token entry.Token, leaseTTL, pause time.Duration) error {
	return n.giveBack(ctx, key, token, milliseconds(max(leaseTTL-pause, 0)))
}

func (n *Namespace) giveBack(ctx context.Context, key string, token entry.Token, age string) error {
	_, err := n.client.one(ctx, n.releaseCall(key, token, age))
	return err
}

func (n *Namespace) releaseCall(key string, token entry.Token, age string) call {
	return call{releaseScript, n.keys(key), []string{string(token[:]), age}}
}

// Reclaim turns unreadable content into a lease, if it is still what was read.
func (n *Namespace) Reclaim(ctx context.Context, key, content string, leaseTTL time.Duration) (token entry.Token, ok bool, err error) {
	token = n.tokens.Next()
	sum := sha1.Sum([]byte(content))
	r, err := n.client.one(ctx, call{reclaimScript, n.keys(key),
		[]string{hex.EncodeToString(sum[:]), string(token[:]), milliseconds(leaseTTL)}})
	return token, r.tag == tagLease, err
}

// Put overwrites whatever is there and tells every instance.
func (n *Namespace) Put(ctx context.Context, key string, f Fill) error {
	return n.PutAll(ctx, []KeyFill{{Key: key, Fill: f}})[0]
}

// Invalidate removes keys and tells every instance; with a staleTTL values may be
// shown on for so long. It answers one error per key, nil where it was done.
func (n *Namespace) Invalidate(ctx context.Context, keys []string, staleTTL time.Duration) []error {
	errs := make([]error, 0, len(keys))
	size := frame.MaxKeys
	if n.client.Cluster() {
		size = 1 // keys of one script must share a slot, and whole keys are hashed
	}
	var writes []telling
	for start := 0; start < len(keys); start += size {
		writes = append(writes, telling{script: invalidateScript, names: keys[start:min(start+size, len(keys))],
			args: []string{milliseconds(staleTTL)}})
	}
	for i, err := range n.write(ctx, writes...) {
		for range writes[i].names {
			errs = append(errs, err)
		}
	}
	return errs
}

func (n *Namespace) keys(keys ...string) []string {
	full := make([]string, len(keys))
	for i, key := range keys {
		full[i] = n.prefix + key
	}
	return full
}

func (n *Namespace) tail(f Fill) (string, error) {
	tail, err := entry.Tail(f.Version, n.tokens.Next(), f.Body)
	if err != nil {
		return "", fmt.Errorf("encode entry: %w", err)
	}
	return tail, nil
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(d.Milliseconds(), 10)
}

func ttl(d time.Duration) string {
	if d == policy.Forever {
		return "-1"
	}
	return milliseconds(max(d, time.Millisecond))
}

package l1

import (
	"context"
	"slices"

	"github.com/cocache/cocache/runtime/entry"
)

// Outcome is one key's part of a batch.
type Outcome struct {
	Reading Reading
	Err     error
}

// Bounds of what is sent or asked for in one round trip: each has a command
// timeout to itself.
const (
	keysPerTrip  = 512
	bytesPerTrip = 1 << 20 // of values sent
)

// ReadAll reads keys, in one round trip for each keysPerTrip, in their order.
func (n *Namespace) ReadAll(ctx context.Context, keys []string, ask Ask) []Outcome {
	outcomes := make([]Outcome, 0, len(keys))
	for part := range slices.Chunk(keys, keysPerTrip) {
		outcomes = append(outcomes, n.readTrip(ctx, part, ask)...)
	}
	return outcomes
}

func (n *Namespace) readTrip(ctx context.Context, keys []string, ask Ask) []Outcome {
	calls, tokens := make([]call, len(keys)), make([]entry.Token, len(keys))
	for i, key := range keys {
		calls[i], tokens[i] = n.readCall(key, ask)
	}
	replies, errs := n.client.do(ctx, calls...)
	outcomes := make([]Outcome, len(keys))
	for i := range keys {
		if outcomes[i].Err = errs[i]; errs[i] == nil {
			outcomes[i].Reading, outcomes[i].Err = reading(replies[i], tokens[i])
		}
	}
	return outcomes
}

// KeyFill is one fill or put of a batch.
type KeyFill struct {
	Key   string
	Token entry.Token // of a fill
	Fill  Fill
}

// FillOutcome is one key's part of a batch of fills.
type FillOutcome struct {
	Stored bool
	Err    error
}

// trip is the part of a batch that is sent at once.
type trip[T any] struct {
	items []T
	at    []int // where each stands in the batch
	bytes int
}

// add adds an item, sending what is gathered first when there is no more room.
func (t *trip[T]) add(item T, at, size int, send func(trip[T])) {
	if len(t.items) == keysPerTrip || t.bytes+size > bytesPerTrip {
		t.end(send)
	}
	t.items, t.at, t.bytes = append(t.items, item), append(t.at, at), t.bytes+size
}

// end sends what is gathered.
func (t *trip[T]) end(send func(trip[T])) {
	send(*t)
	*t = trip[T]{}
}

// FillAll fills keys, each under its own token, in as few round trips as the size of
// the values allows.
func (n *Namespace) FillAll(ctx context.Context, fills []KeyFill) []FillOutcome {
	outcomes := make([]FillOutcome, len(fills))
	send := func(t trip[call]) {
		replies, errs := n.client.do(ctx, t.items...)
		for j, i := range t.at {
			outcomes[i] = FillOutcome{Stored: replies[j].tag == tagStored, Err: errs[j]}
		}
	}
	var t trip[call]
	for i, f := range fills {
		call, err := n.fillCall(f.Key, f.Token, f.Fill)
		if err != nil {
			outcomes[i].Err = err
			continue
		}
		t.add(call, i, len(f.Fill.Body.Payload), send)
	}
	t.end(send)
	return outcomes
}

// PutAll is Put of several keys, in as few round trips as the size of the values
// allows. Of two for a key only the later is sent: a pipeline may be sent in part
// once more, so it keeps no order. It answers one error per key.
func (n *Namespace) PutAll(ctx context.Context, puts []KeyFill) []error {
	errs := make([]error, len(puts))
	later := make(map[string]int, len(puts))
	for i, p := range puts {
		later[p.Key] = i
	}
	send := func(t trip[telling]) {
		for j, err := range n.write(ctx, t.items...) {
			errs[t.at[j]] = err
		}
	}
	var t trip[telling]
	for i, p := range puts {
		if later[p.Key] != i {
			continue
		}
		tail, err := n.tail(p.Fill)
		if err != nil {
			errs[i] = err
			continue
		}
		t.add(telling{script: putScript, names: []string{p.Key},
			args: []string{string(p.Fill.State), ttl(p.Fill.TTL), tail}}, i, len(tail), send)
	}
	t.end(send)
	for i, p := range puts {
		errs[i] = errs[later[p.Key]]
	}
	return errs
}

// KeyToken is one release of a batch.
type KeyToken struct {
	Key   string
	Token entry.Token
}

// ReleaseAll is Release of several keys in one round trip. It answers one error per
// key.
func (n *Namespace) ReleaseAll(ctx context.Context, releases []KeyToken) []error {
	calls := make([]call, len(releases))
	for i, r := range releases {
		calls[i] = n.releaseCall(r.Key, r.Token, "-1")
	}
	_, errs := n.client.do(ctx, calls...)
	return errs
}

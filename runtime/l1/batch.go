package l1

import (
	"context"

	"github.com/cocache/cocache/runtime/entry"
)

// Outcome is one key's part of a batch.
type Outcome struct {
	Reading Reading
	Err     error
}

// ReadAll reads keys in one round trip, in their order.
func (n *Namespace) ReadAll(ctx context.Context, keys []string, ask Ask) []Outcome {
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

// KeyFill is one fill of a batch.
type KeyFill struct {
	Key   string
	Token entry.Token
	Fill  Fill
}

// FillOutcome is one key's part of a batch of fills.
type FillOutcome struct {
	Stored bool
	Err    error
}

// FillAll fills keys in one round trip, each under its own token, in their
// order.
func (n *Namespace) FillAll(ctx context.Context, fills []KeyFill) []FillOutcome {
	outcomes := make([]FillOutcome, len(fills))
	var calls []call
	var at []int
	for i, f := range fills {
		call, err := n.fillCall(f.Key, f.Token, f.Fill)
		if err != nil {
			outcomes[i].Err = err
			continue
		}
		calls, at = append(calls, call), append(at, i)
	}
	if len(calls) == 0 {
		return outcomes
	}
	replies, errs := n.client.do(ctx, calls...)
	for j, i := range at {
		outcomes[i] = FillOutcome{Stored: replies[j].tag == tagStored, Err: errs[j]}
	}
	return outcomes
}

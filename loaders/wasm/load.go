package wasm

import (
	"context"
	"slices"
	"time"

	"github.com/cocache/cocache/loaders/wasm/hostcall"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/sdk/abi"
)

// single is a module that loads one key a call.
type single struct {
	spec   Spec
	host   *hostcall.Host
	engine *engine
	pool   *pool
}

// batch is a module that loads several keys a call as well.
type batch struct{ *single }

// Load implements loader.Loader.
func (l *single) Load(ctx context.Context, req loader.Request) (loader.Result, error) {
	out, err := l.run(ctx, abi.KindLoad, []loader.Request{req})
	if err != nil {
		return loader.Result{}, err
	}
	return out[0].Result, out[0].Err
}

// LoadAll implements loader.BatchLoader. It calls the guest as often as it
// takes to keep each request under abi.MaxBatch.
func (b *batch) LoadAll(ctx context.Context, reqs []loader.Request) ([]loader.Outcome, error) {
	all := make([]loader.Outcome, 0, len(reqs))
	for len(reqs) > 0 {
		n := batchLen(reqs)
		out, err := b.run(ctx, abi.KindLoadAll, reqs[:n])
		if err != nil {
			return nil, err
		}
		all = append(all, out...)
		reqs = reqs[n:]
	}
	return all, nil
}

// batchLen is how many of the first requests fit into one call: at least one,
// since a key is never cut.
func batchLen(reqs []loader.Request) int {
	size := abi.RequestHeader
	for i, r := range reqs {
		size += abi.KeySize(r.Key)
		if size >= abi.MaxBatch && i > 0 {
			return i
		}
	}
	return len(reqs)
}

// Close implements Loader.
func (l *single) Close() error {
	l.pool.close()
	return l.engine.close()
}

// try starts one instance and keeps it for the first call.
func (l *single) try(ctx context.Context) error {
	slot, err := l.pool.acquire(ctx)
	if err != nil {
		return err
	}
	defer l.pool.release(slot)
	c := l.begin(ctx)
	defer c.end()
	return l.start(c, slot)
}

// run makes one call of the guest: reqs go in, as many outcomes come out.
func (l *single) run(ctx context.Context, kind abi.Kind, reqs []loader.Request) ([]loader.Outcome, error) {
	slot, err := l.pool.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer l.pool.release(slot)
	// The guest's time starts when it has an instance: waiting is bounded by
	// the caller's context alone.
	c := l.begin(ctx)
	defer c.end()
	if err := l.start(c, slot); err != nil {
		return nil, err
	}
	out, err := slot.inst.call(c, kind, reqs)
	if err != nil || c.ctx.Err() != nil || hitLimit(out) {
		// Whatever went wrong may have left the guest's memory half changed
		// or full, and the engine closes an instance when its time is over.
		slot.retire()
	}
	if err != nil {
		return nil, c.failure(err)
	}
	return out, nil
}

func hitLimit(out []loader.Outcome) bool {
	return slices.ContainsFunc(out, func(o loader.Outcome) bool {
		e, ok := o.Err.(*loader.Error)
		return ok && e.Kind == loader.Limited
	})
}

// start gives the slot an instance if it has none.
func (l *single) start(c *call, s *slot) error {
	if s.inst != nil {
		return nil
	}
	inst, err := l.engine.instantiate(c)
	if err != nil {
		return c.failure(err)
	}
	s.inst = inst
	return nil
}

// makeRequest is the frame's content. A batch is a background one only when no
// reader waits for any of its keys.
func makeRequest(c *call, kind abi.Kind, reqs []loader.Request) *abi.Request {
	r := &abi.Request{Kind: kind, Background: true, BudgetMS: c.budget(), Keys: make([]abi.Key, len(reqs))}
	for i, q := range reqs {
		r.Background = r.Background && q.Background
		r.Keys[i] = abi.Key{Key: q.Key, Previous: q.PreviousVersion}
	}
	return r
}

// outcomes turns the guest's answers into results. The values are copied: the
// answers lie in the guest's memory.
func outcomes(spec *Spec, answers []abi.Answer) []loader.Outcome {
	out := make([]loader.Outcome, len(answers))
	for i := range answers {
		out[i].Result, out[i].Err = result(spec, &answers[i])
	}
	return out
}

func result(spec *Spec, a *abi.Answer) (loader.Result, error) {
	if a.Status == abi.StatusRetry || a.Status == abi.StatusError {
		return loader.Result{}, reported(a)
	}
	if int64(len(a.Body)) > spec.MaxOutput {
		return loader.Result{}, limited(limitOutput, sizeWords(spec.MaxOutput), "the value has %d bytes", len(a.Body))
	}
	contentType, err := contentTypeOf(a)
	if err != nil {
		return loader.Result{}, err
	}
	r := loader.Result{Status: loader.Absent, Version: a.Version}
	if a.Status != abi.StatusAbsent {
		r.Status, r.ContentType = loader.Value, contentType
		r.NoStore = a.Status == abi.StatusNoStore
	}
	if !r.NoStore {
		if r.TTL, err = ttl(a.TTLMS); err != nil {
			return loader.Result{}, err
		}
	}
	if r.Status == loader.Value {
		r.Value = append(make([]byte, 0, len(a.Body)), a.Body...)
	}
	return r, nil
}

// maxContentType is what the cache keeps of a content type, in bytes.
const maxContentType = 127

func contentTypeOf(a *abi.Answer) (string, error) {
	if len(a.ContentType) > maxContentType {
		return "", loader.Failf("the content type has %d bytes, more than %d", len(a.ContentType), maxContentType)
	}
	for _, b := range a.ContentType {
		if b < ' ' || b > '~' {
			return "", loader.Failf("the content type %q is not printable ASCII", a.ContentType)
		}
	}
	return string(a.ContentType), nil
}

func ttl(ms uint32) (time.Duration, error) {
	switch ms {
	case abi.TTLDefault:
		return 0, nil
	case abi.TTLForever:
		return loader.Forever, nil
	case 0:
		return 0, loader.Failf("the answer's ttl is 0: leave it to the namespace (0xFFFFFFFF) or answer a value that is not to be stored (status 4)")
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// reported is a failure that the guest answered with.
func reported(a *abi.Answer) error {
	e := &loader.Error{Kind: loader.Failed, Message: message(a.Body), Code: code(a.Code)}
	if a.Status == abi.StatusError {
		return e
	}
	after, err := ttl(a.TTLMS)
	if err != nil {
		return err
	}
	if after == loader.Forever {
		return loader.Failf("the answer says to retry after forever")
	}
	e.Kind, e.After = loader.Retry, after
	return e
}

func message(b []byte) string {
	// One byte more than is kept, so that Clean sees that it has to cut.
	if m := loader.Clean(string(b[:min(len(b), loader.MaxMessage+1)])); m != "" {
		return m
	}
	return "the loader gave no message"
}

// maxCode is where an error code is cut, in bytes: it is a word.
const maxCode = 64

func code(b []byte) string { return loader.Clean(string(b[:min(len(b), maxCode)])) }

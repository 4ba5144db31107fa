package conformance

import (
	"context"
	"sync"
	"time"

	"github.com/cocache/cocache/runtime/loader"
)

// source is what the instances' loaders read: rows that a writer changes. It
// counts its calls, and can be held and made to fail.
type source struct {
	mu    sync.Mutex
	rows  map[string]string             // guarded by mu
	ttls  map[string]time.Duration      // guarded by mu; that the loader names
	fails map[string]error              // guarded by mu
	holds map[string]*hold              // guarded by mu
	calls map[string]int                // guarded by mu
	asked []loader.Request              // guarded by mu
	seen  []context.Context             // guarded by mu; of the calls, beside asked
	batch [][]string                    // guarded by mu; keys of each LoadAll
	do    func(context.Context, string) // guarded by mu; runs in each call
}

func put[V any](m *map[string]V, key string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = value
}

// set commits a row.
func (s *source) set(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	put(&s.rows, key, value)
}

// remove removes a row.
func (s *source) remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rows, key)
}

// ttl makes the loader name one for a key.
func (s *source) ttl(key string, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	put(&s.ttls, key, ttl)
}

// fail makes loads of a key fail; nil mends it.
func (s *source) fail(key string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	put(&s.fails, key, err)
}

// inLoad runs in each load, with the load's context.
func (s *source) inLoad(do func(ctx context.Context, key string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do = do
}

// hold stops one load after it has read its row.
type hold struct {
	w       *world
	entered chan struct{} // closed when the load stands here
	gate    chan struct{}
	release func()
}

// hold makes the next load of a key stop there; later ones do not.
func (w *world) hold(key string) *hold {
	h := &hold{w: w, entered: make(chan struct{}), gate: make(chan struct{})}
	h.release = sync.OnceFunc(func() { close(h.gate) })
	w.Cleanup(h.release)
	w.source.mu.Lock()
	defer w.source.mu.Unlock()
	put(&w.source.holds, key, h)
	return h
}

// isIn reports whether the load stands in the hold.
func (h *hold) isIn() bool {
	select {
	case <-h.entered:
		return true
	default:
		return false
	}
}

// wait waits for the load to stand in the hold.
func (h *hold) wait() {
	h.w.Helper()
	h.w.until("the loader is asked", h.isIn)
}

// count is how often a key was asked for, alone or in a batch.
func (s *source) count(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[key]
}

// last is the latest request and its context.
func (s *source) last() (loader.Request, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[len(s.asked)-1], s.seen[len(s.seen)-1]
}

func (s *source) Load(ctx context.Context, req loader.Request) (loader.Result, error) {
	s.mu.Lock()
	row, ok := s.rows[req.Key]
	err, ttl, held, do := s.fails[req.Key], s.ttls[req.Key], s.holds[req.Key], s.do
	delete(s.holds, req.Key)
	put(&s.calls, req.Key, s.calls[req.Key]+1)
	s.asked, s.seen = append(s.asked, req), append(s.seen, ctx)
	s.mu.Unlock()
	if do != nil {
		do(ctx, req.Key)
	}
	if held != nil {
		close(held.entered)
		select {
		case <-held.gate:
		case <-ctx.Done():
			return loader.Result{}, context.Cause(ctx)
		}
	}
	switch {
	case err != nil:
		return loader.Result{}, err
	case !ok:
		return loader.Result{Status: loader.Absent, TTL: ttl}, nil
	}
	return loader.Result{Value: []byte(row), TTL: ttl}, nil
}

// inBatches is the source with a batch.
type inBatches struct{ *source }

func (b inBatches) LoadAll(ctx context.Context, reqs []loader.Request) ([]loader.Outcome, error) {
	keys := make([]string, len(reqs))
	outcomes := make([]loader.Outcome, len(reqs))
	for i, req := range reqs {
		keys[i] = req.Key
	}
	b.mu.Lock()
	b.batch = append(b.batch, keys)
	b.mu.Unlock()
	for i, req := range reqs {
		outcomes[i].Result, outcomes[i].Err = b.Load(ctx, req)
	}
	return outcomes, nil
}

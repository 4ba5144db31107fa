package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/tests/redistest"
)

// narrowSource takes eight queries at a time, each a millisecond and ten
// microseconds per key: a database behind a pool.
type narrowSource struct{ places chan struct{} }

func (s narrowSource) query(keys int) {
	s.places <- struct{}{}
	defer func() { <-s.places }()
	time.Sleep(time.Millisecond + time.Duration(keys)*10*time.Microsecond)
}

func (s narrowSource) Load(_ context.Context, req loader.Request) (loader.Result, error) {
	s.query(1)
	return loader.Result{Value: []byte(missValue(req.Key))}, nil
}

func (s narrowSource) LoadAll(_ context.Context, reqs []loader.Request) ([]loader.Outcome, error) {
	s.query(len(reqs))
	outcomes := make([]loader.Outcome, len(reqs))
	for i, req := range reqs {
		outcomes[i].Result.Value = []byte(missValue(req.Key))
	}
	return outcomes, nil
}

// gathered: 64 callers read keys that nobody has read before, from a narrow
// source, with loads gathered and one by one.
func gathered(t testing.TB, s *redistest.Server) []side {
	open := func(name string, window time.Duration) side {
		c := openCache(t, s, narrowSource{make(chan struct{}, 8)}, func(o *cache.Options, _ *l1.Options) {
			o.Policy.Loads.BatchWindow = window
		})
		var last atomic.Int64
		return side{name, target{}, func(_, n int) error {
			for range n {
				key := missKey(name[:4], last.Add(1))
				found, err := c.Get(background, key)
				if err != nil || found.Source != cache.FromLoader || !found.StoredL1 || found.Value != missValue(key) {
					return fmt.Errorf("%s: %+v, %w", key, found, err)
				}
			}
			return nil
		}}
	}
	return []side{open("with batch-window 1ms", time.Millisecond), open("one by one", 0)}
}

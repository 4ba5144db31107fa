package bench

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/tests/redistest"
)

const (
	stampedeName      = "stampede of 20 instances with 100 readers each on one cold key"
	instances         = 20
	readersOfInstance = 100
)

// stampede is a herd of instances, each with its own connections, in front of
// one slow source.
type stampede struct {
	read  []func(key string) (string, error) // by instance
	loads atomic.Int64
	took  time.Duration // of one load; not changed while a run is under way
}

func (h *stampede) load(key string) string {
	h.loads.Add(1)
	time.Sleep(h.took)
	return missValue(key)
}

func ourStampede(t testing.TB, s *redistest.Server) *stampede {
	h := &stampede{}
	load := loader.Func(func(_ context.Context, req loader.Request) (loader.Result, error) {
		return loader.Result{Value: []byte(h.load(req.Key))}, nil
	})
	for range instances {
		c := openCache(t, s, load)
		h.read = append(h.read, func(key string) (string, error) {
			found, err := c.Get(background, key)
			return found.Value, err
		})
	}
	return h
}

func asideStampede(t testing.TB, s *redistest.Server) *stampede {
	h := &stampede{}
	for range instances {
		c := openAside(t, s)
		h.read = append(h.read, func(key string) (string, error) {
			return c.Get(background, ttl, key, func(_ context.Context, key string) (string, error) { return h.load(key), nil })
		})
	}
	return h
}

// run lets all readers loose on a key at once; it answers how often the source
// was asked and how long the readers took, sorted.
func (h *stampede) run(t testing.TB, key string) (loads int64, took []time.Duration) {
	t.Helper()
	before := h.loads.Load()
	took = make([]time.Duration, instances*readersOfInstance)
	gate := make(chan struct{})
	var readers sync.WaitGroup
	for i := range took {
		readers.Go(func() {
			<-gate
			began := time.Now()
			value, err := h.read[i%instances](key)
			took[i] = time.Since(began)
			if err != nil || value != missValue(key) {
				t.Errorf("%s: %q, %v", key, value, err)
			}
		})
	}
	close(gate)
	readers.Wait()
	slices.Sort(took)
	return h.loads.Load() - before, took
}

// TestStampede holds the count: one load, whoever asks.
func TestStampede(t *testing.T) {
	h := ourStampede(t, redistest.Start(t))
	h.took = 20 * time.Millisecond
	for i := range 3 {
		if loads, _ := h.run(t, missKey("herd", int64(i))); loads != 1 {
			t.Errorf("%d loads, want 1", loads)
		}
	}
}

// reportStampedes runs ours and theirs in turn on fresh keys.
func reportStampedes(t *testing.T, w *bytes.Buffer) {
	s := redistest.Start(t)
	ours, theirs := ourStampede(t, s), asideStampede(t, s)
	fmt.Fprintf(w, "## %s\n\n", stampedeName)
	fmt.Fprintf(w, "| load | side | loads, most in a round | p99 of readers, min / median / max | beyond the load | target | |\n")
	fmt.Fprintf(w, "|---|---|---|---|---|---|---|\n")
	for _, took := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond} {
		var most [2]int64
		var p99s [2][]sample
		for round := range *rounds {
			for i, h := range []*stampede{ours, theirs} {
				h.took = took
				loads, waits := h.run(t, missKey(fmt.Sprint("s", i), int64(took)+int64(round)))
				most[i] = max(most[i], loads)
				p99s[i] = append(p99s[i], sample{time: float64(waits[len(waits)*99/100])})
			}
		}
		for i, name := range []string{"cocache Get", "rueidisaside Get"} {
			beyond := time.Duration(median(p99s[i], func(s sample) float64 { return s.time })) - took
			want, verdict := "", ""
			if i == 0 {
				want, verdict = "1 load, ≤ 10 ms", "**miss**"
				if most[i] == 1 && beyond <= 10*time.Millisecond {
					verdict = "pass"
				}
			}
			fmt.Fprintf(w, "| %s | %s | %d | %s | %s | %s | %s |\n", took, name, most[i], spread(p99s[i]),
				duration(float64(beyond)), want, verdict)
		}
	}
	fmt.Fprintln(w)
}

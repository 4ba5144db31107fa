package loadertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cocache/cocache/runtime/loader"
)

func testTimeout(t *testing.T, open Opener) {
	o := options(t)
	o.Timeout = time.Second
	l := open(t, o)
	for _, key := range []string{"spin", "sleep/600000"} {
		t.Run(key, func(t *testing.T) {
			defer within(t, o.Timeout+slack)()
			e := mustFail(t, l, loader.Request{Key: key})
			if e.Kind != loader.TimedOut || e.Limit != "loader.limits.timeout" || e.Value != "1s" {
				t.Fatalf("error = %#v, want the limit loader.limits.timeout = 1s", e)
			}
			works(t, l)
		})
	}
}

func testCancel(t *testing.T, open Opener) {
	o := options(t)
	o.MaxInstances = 1
	l := open(t, o)
	for _, key := range []string{"spin", "sleep/600000"} {
		t.Run(key, func(t *testing.T) {
			defer within(t, slack)()
			cancelled(t, l, key)
			works(t, l)
		})
	}
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Load(ctx, loader.Request{Key: "echo/x"}); !errors.Is(err, context.Canceled) {
			t.Fatalf("error = %v, want context.Canceled", err)
		}
	})
	t.Run("while it waits for an instance", func(t *testing.T) {
		defer within(t, slack)()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = l.Load(ctx, loader.Request{Key: "sleep/600000"}) })
		time.Sleep(100 * time.Millisecond)
		cancelled(t, l, "echo/x")
		cancel()
		wg.Wait()
		works(t, l)
	})
	t.Run("deadline of the caller", func(t *testing.T) {
		defer within(t, slack)()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := l.Load(ctx, loader.Request{Key: "spin"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error = %v, want context.DeadlineExceeded", err)
		}
		works(t, l)
	})
}

// cancelled loads a key whose load does not end and cancels it soon after.
func cancelled(t *testing.T, l loader.Loader, key string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stop := time.AfterFunc(100*time.Millisecond, cancel)
	defer stop.Stop()
	defer cancel()
	if _, err := l.Load(ctx, loader.Request{Key: key}); !errors.Is(err, context.Canceled) {
		t.Errorf("load %q: error = %v, want context.Canceled", key, err)
	}
}

func testConcurrent(t *testing.T, open Opener) {
	l := open(t, options(t))
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			want := fmt.Sprintf("%d\xff%d", i, i)
			r, err := l.Load(t.Context(), loader.Request{Key: "echo/" + want})
			if err != nil || string(r.Value) != want {
				t.Errorf("load %d: value %q, error %v", i, r.Value, err)
			}
		})
	}
	wg.Wait()
}

// within returns the check that the time until it is called was no longer
// than d.
func within(t *testing.T, d time.Duration) func() {
	t.Helper()
	start := time.Now()
	return func() {
		t.Helper()
		if took := time.Since(start); took > d {
			t.Errorf("took %v, want at most %v", took, d)
		}
	}
}

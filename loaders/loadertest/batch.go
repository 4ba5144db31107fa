package loadertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/cocache/cocache/runtime/loader"
)

func testBatch(t *testing.T, open Opener) {
	l, ok := open(t, options(t)).(loader.BatchLoader)
	if !ok {
		t.Fatal("the fixture's loader is no BatchLoader")
	}
	t.Run("answers", func(t *testing.T) { testBatchAnswers(t, l) })
	t.Run("one", func(t *testing.T) {
		equal(t, loadAll(t, l, "empty")[0].Result, loader.Result{Value: []byte{}})
	})
	t.Run("none", func(t *testing.T) {
		if out := loadAll(t, l); len(out) != 0 {
			t.Fatalf("%d outcomes for no keys", len(out))
		}
	})
	t.Run("many", func(t *testing.T) { testBatchMany(t, l) })
	t.Run("crash", func(t *testing.T) {
		out, err := l.LoadAll(t.Context(), []loader.Request{{Key: "echo/a"}, {Key: "crash"}})
		if err == nil {
			err = out[1].Err
		}
		if e := asError(t, "crash", loader.Result{}, err); e.Kind != loader.Failed {
			t.Fatalf("error = %v, want the kind failed", e)
		}
		works(t, l)
	})
}

func testBatchAnswers(t *testing.T, l loader.BatchLoader) {
	all := "\x00\xff\xc3("
	out := loadAll(t, l, "echo/"+all, "absent", "leave-out", "error", "ttl", "retry", "empty", "absent-ttl")
	equal(t, out[0].Result, loader.Result{Value: []byte(all)})
	equal(t, out[1].Result, loader.Result{Status: loader.Absent})
	equal(t, out[2].Result, loader.Result{Status: loader.Absent})
	if e := asError(t, "error", out[3].Result, out[3].Err); e.Kind != loader.Failed || e.Code != "E_LUCK" {
		t.Errorf("error = %#v, want failed with the code E_LUCK", e)
	}
	equal(t, out[4].Result, loader.Result{Value: []byte("x"), TTL: 5 * time.Minute})
	if e := asError(t, "retry", out[5].Result, out[5].Err); e.Kind != loader.Retry || e.After != 3*time.Second {
		t.Errorf("error = %#v, want retry after 3s", e)
	}
	equal(t, out[6].Result, loader.Result{Value: []byte{}})
	equal(t, out[7].Result, loader.Result{Status: loader.Absent, TTL: 7 * time.Second})
	for _, i := range []int{0, 1, 2, 4, 6, 7} {
		if out[i].Err != nil {
			t.Errorf("outcome %d fails with %v", i, out[i].Err)
		}
	}
}

func testBatchMany(t *testing.T, l loader.BatchLoader) {
	keys := make([]string, 500)
	for i := range keys {
		keys[i] = fmt.Sprintf("echo/%d", i)
	}
	for i, o := range loadAll(t, l, keys...) {
		if want := fmt.Sprint(i); o.Err != nil || string(o.Result.Value) != want {
			t.Fatalf("outcome %d: value %q, error %v", i, o.Result.Value, o.Err)
		}
	}
}

func loadAll(t *testing.T, l loader.BatchLoader, keys ...string) []loader.Outcome {
	t.Helper()
	reqs := make([]loader.Request, len(keys))
	for i, k := range keys {
		reqs[i].Key = k
	}
	out, err := l.LoadAll(t.Context(), reqs)
	if err != nil {
		t.Fatalf("load %d keys: %v", len(keys), err)
	}
	if len(out) != len(keys) {
		t.Fatalf("%d outcomes for %d keys", len(out), len(keys))
	}
	return out
}

package wasm

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/loaders/loadertest"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/sdk/abi"
)

// TestEndOfCall writes a part of a line: only the end of the call logs it.
func TestEndOfCall(t *testing.T) {
	var b bytes.Buffer
	set := capability.Set{Log: slog.New(slog.NewTextHandler(&b, nil))}
	// The vector at 0 is {1056, 3}: the key behind both headers.
	store := func(at, value int32) []byte { return slices.Concat(i32Const(at), i32Const(value), []byte{0x36, 2, 0}) }
	write := slices.Concat(i32Const(2), i32Const(0), i32Const(1), i32Const(8), []byte{opCall, 0, opDrop})
	a := guest(slices.Concat(store(0, 1056), store(4, 3), write, i64Const(0)))
	a.imports = []imported{{wasi, "fd_write", []byte{i32, i32, i32, i32}, []byte{i32}}}
	l := mustOpen(t, Spec{Module: a.bytes(), Capabilities: set})
	fails(t, l, "thr", loader.Limited, limitMemory)
	if !strings.Contains(b.String(), "level=WARN msg=thr\n") {
		t.Errorf("log %q", b.String())
	}
}

func TestExit(t *testing.T) {
	for _, exit := range []int32{0, 3} {
		a := guest(slices.Concat(i32Const(exit), []byte{opCall, 0}, i64Const(0)))
		a.imports = []imported{{wasi, "proc_exit", []byte{i32}, nil}}
		l := mustOpen(t, Spec{Module: a.bytes(), Capabilities: quiet()})
		for range 2 {
			fails(t, l, "key", loader.Failed, fmt.Sprintf("exited with code %d", exit))
		}
	}
}

// A guest cannot pretend that its time is over by the engine's own exit code.
func TestExitWithTheEnginesCode(t *testing.T) {
	a := guest(slices.Concat(i32Const(-1<<28), []byte{opCall, 0}, i64Const(0)))
	a.imports = []imported{{wasi, "proc_exit", []byte{i32}, nil}}
	fails(t, mustOpen(t, Spec{Module: a.bytes(), Capabilities: quiet()}), "key", loader.Failed, "exited with code")
}

func TestAbort(t *testing.T) {
	// A string object: its size in bytes, then UTF-16. The key is "hi".
	store := func(at, value int32) []byte { return slices.Concat(i32Const(at), i32Const(value), []byte{0x36, 2, 0}) }
	abort := slices.Concat(i32Const(8), i32Const(8), i32Const(7), i32Const(5), []byte{opCall, 0})
	a := guest(slices.Concat(store(4, 4), store(8, 'h'|'i'<<16), abort, i64Const(0)))
	a.imports = []imported{{"env", "abort", []byte{i32, i32, i32, i32}, nil}}
	fails(t, mustOpen(t, Spec{Module: a.bytes(), Capabilities: quiet()}), "key", loader.Failed, "hi (hi:7:5)")
}

func TestTrapLine(t *testing.T) {
	cases := map[string]string{
		"wasm error: unreachable\nwasm stack trace:\n\t.crash()\n\t.load(i32,i32) i64": "trap: unreachable in crash",
		"wasm error: out of bounds\nwasm stack trace:\n\t.main.(*T).f(i32) (i32,i32)":  "trap: out of bounds in main.(*T).f",
		"start module: something": "trap: start module: something",
	}
	for report, want := range cases {
		if got := trapLine(report); got != want {
			t.Errorf("%q becomes %q, want %q", report, got, want)
		}
	}
}

func TestContentType(t *testing.T) {
	l := mustOpen(t, Spec{Module: guestC(t), Capabilities: quiet()})
	if r, err := l.Load(t.Context(), loader.Request{Key: "type"}); err != nil || r.ContentType != "image/png" {
		t.Errorf("got %+v, %v", r, err)
	}
	for _, bad := range []string{"a\nb", "ä", strings.Repeat("x", 128)} {
		if _, err := contentTypeOf(&abi.Answer{ContentType: []byte(bad)}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestBatchLen(t *testing.T) {
	big := loader.Request{Key: strings.Repeat("k", abi.MaxBatch/2)}
	huge := loader.Request{Key: strings.Repeat("k", 2*abi.MaxBatch)}
	small := loader.Request{Key: "k"}
	for i, c := range []struct {
		reqs []loader.Request
		want int
	}{
		{[]loader.Request{small, small}, 2},
		{[]loader.Request{big, big, small}, 1},
		{[]loader.Request{big, small, big}, 2},
		{[]loader.Request{huge, small}, 1},
	} {
		if got := batchLen(c.reqs); got != c.want {
			t.Errorf("case %d: %d, want %d", i, got, c.want)
		}
	}
}

// TestBatchIsCut loads more than one request can carry.
func TestBatchIsCut(t *testing.T) {
	l := mustOpen(t, Spec{Module: guestC(t), Capabilities: quiet()}).(loader.BatchLoader)
	reqs := make([]loader.Request, 40)
	for i := range reqs {
		reqs[i].Key = fmt.Sprintf("echo/%d%s", i, strings.Repeat("x", 100_000))
	}
	out, err := l.LoadAll(t.Context(), reqs)
	if err != nil || len(out) != len(reqs) {
		t.Fatalf("%d outcomes, %v", len(out), err)
	}
	for i, o := range out {
		if want := reqs[i].Key[len("echo/"):]; string(o.Result.Value) != want {
			t.Errorf("outcome %d is another one", i)
		}
	}
}

// A value over the limit fails its key alone.
func TestBatchOutputLimit(t *testing.T) {
	l := mustOpen(t, Spec{Module: guestC(t), MaxOutput: 10, Capabilities: quiet()}).(loader.BatchLoader)
	out, err := l.LoadAll(t.Context(), []loader.Request{{Key: "size/10"}, {Key: "size/11"}})
	var e *loader.Error
	if err != nil || out[0].Err != nil || !errors.As(out[1].Err, &e) || e.Limit != limitOutput || e.Value != "10B" {
		t.Errorf("outcomes %+v, %v", out, err)
	}
}

// TestMemoryLimit asks for more memory than there is: the value of 12 MiB and
// the response that holds it do not fit into 16 MiB.
func TestMemoryLimit(t *testing.T) {
	guests := map[string][]byte{"c": guestC(t)}
	if !testing.Short() {
		guests["go"] = guestGo(t)
	}
	for name, module := range guests {
		t.Run(name, func(t *testing.T) {
			l := mustOpen(t, Spec{Module: module, MaxMemory: 16 << 20, MaxOutput: 64 << 20, Timeout: 20 * time.Second, Capabilities: quiet()})
			for range 3 {
				fails(t, l, "size/12582912", loader.Limited, "loader.limits.max-memory = 16MiB")
			}
			if r, err := l.Load(t.Context(), loader.Request{Key: "size/1000"}); err != nil || len(r.Value) != 1000 {
				t.Errorf("the next load answers %d bytes, %v", len(r.Value), err)
			}
		})
	}
}

func TestClose(t *testing.T) {
	l, err := Open(t.Context(), Spec{Module: guestC(t), MaxInstances: 1, Capabilities: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if r, err := l.Load(t.Context(), loader.Request{Key: "sleep/300"}); err != nil || string(r.Value) != "slept" {
			t.Errorf("the load that ran answers %q, %v", r.Value, err)
		}
	})
	time.Sleep(100 * time.Millisecond)
	wg.Go(func() {
		if _, err := l.Load(t.Context(), loader.Request{Key: "empty"}); !errors.Is(err, errClosed) {
			t.Errorf("the load that waited: %v", err)
		}
	})
	time.Sleep(50 * time.Millisecond)
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if _, err := l.Load(t.Context(), loader.Request{Key: "empty"}); !errors.Is(err, errClosed) {
		t.Errorf("a load after Close: %v", err)
	}
}

// The instance that came back last is lent first.
func TestPoolIsLIFO(t *testing.T) {
	p := newPool(2)
	a, _ := p.acquire(t.Context())
	b, _ := p.acquire(t.Context())
	a.inst, b.inst = &instance{frame: []byte("a")}, &instance{frame: []byte("b")}
	p.release(a)
	p.release(b)
	if s, _ := p.acquire(t.Context()); string(s.inst.frame) != "b" {
		t.Errorf("got %s first", s.inst.frame)
	}
}

func BenchmarkLoad(b *testing.B) {
	for name, module := range map[string][]byte{"c": guestC(b), "go": guestGo(b)} {
		b.Run(name, func(b *testing.B) {
			l := mustOpen(b, Spec{Module: module, Capabilities: capability.Set{Namespace: loadertest.Namespace, Log: slog.New(slog.DiscardHandler)}})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Load(b.Context(), loader.Request{Key: "echo/hello"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package wasm

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/sdk/abi"
)

func TestHostileAnswers(t *testing.T) {
	const page = 65536
	cases := map[string]struct {
		load []byte
		kind loader.Kind
		want string
	}{
		"pointer outside memory": {i64Const(abi.Pack(1<<31, 24)), loader.Failed, "bad frame"},
		"length of all ones":     {i64Const(abi.Pack(1024, 1<<32-1)), loader.Failed, "bad frame"},
		"everything of all ones": {i64Const(1<<64 - 1), loader.Failed, "bad frame"},
		"pointer plus length":    {i64Const(abi.Pack(1<<32-8, 16)), loader.Failed, "bad frame"},
		"one byte too far":       {i64Const(abi.Pack(page-24, 25)), loader.Failed, "bad frame"},
		"no bytes":               {i64Const(abi.Pack(1024, 0)), loader.Failed, "bad frame"},
		"whole memory":           {i64Const(abi.Pack(1, page-1)), loader.Failed, "bad frame"},
		"zero":                   {i64Const(0), loader.Limited, "loader.limits.max-memory = 16MiB"},
		"trap":                   {[]byte{opUnreachable}, loader.Failed, "trap: unreachable"},
		// What the guest answers is its request, which is no response: its
		// reserved field holds the kind and the flags of it.
		"the request": {i64Const(abi.Pack(1024, 40)), loader.Failed, "bad frame"},
		"recursion":   {[]byte{opLocalGet, 0, opLocalGet, 1, opCall, 2}, loader.Failed, "stack overflow"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := mustOpen(t, Spec{Module: guest(c.load).bytes(), MaxMemory: 16 << 20, Timeout: 30 * time.Second, Capabilities: quiet()})
			for range 3 {
				fails(t, l, "key", c.kind, c.want)
			}
		})
	}
}

func fails(t *testing.T, l loader.Loader, key string, kind loader.Kind, want string) {
	t.Helper()
	r, err := l.Load(t.Context(), loader.Request{Key: key})
	var e *loader.Error
	if !errors.As(err, &e) || e.Kind != kind || !strings.Contains(e.Error(), want) {
		t.Fatalf("load answers %+v and the error %v, want %v with %q", r, err, kind, want)
	}
	if e.Message != loader.Clean(e.Message) {
		t.Errorf("the message %q is not clean", e.Message)
	}
}

func TestHostileAlloc(t *testing.T) {
	cases := map[string]struct {
		answer int32
		kind   loader.Kind
		want   string
	}{
		"out of memory":     {0, loader.Limited, limitMemory},
		"outside":           {-1, loader.Failed, "bad frame: cocache_alloc"},
		"end of the memory": {65535, loader.Failed, "bad frame: cocache_alloc"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := good().with(func(a *assembly) { a.funcs[1].body = i32Const(c.answer) })
			fails(t, mustOpen(t, Spec{Module: a.bytes(), Capabilities: quiet()}), "key", c.kind, c.want)
		})
	}
}

// Growing for ever is refused at the limit; a guest that dies of it is told
// apart from one that traps.
func TestGrowForever(t *testing.T) {
	grow := slices.Concat(i32Const(16), []byte{opMemoryGrow, 0, opDrop})
	spec := Spec{MaxMemory: 16 << 20, Timeout: 300 * time.Millisecond, Capabilities: quiet()}

	spec.Module = guest(slices.Concat(forever(grow...), i64Const(0))).bytes()
	fails(t, mustOpen(t, spec), "key", loader.TimedOut, "loader.limits.timeout = 300ms")

	many := slices.Repeat(grow, 40)
	spec.Module = guest(append(many, opUnreachable)).bytes()
	fails(t, mustOpen(t, spec), "key", loader.Limited, "loader.limits.max-memory = 16MiB")
}

// Endless calls of the host end at the deadline as endless loops do.
func TestHostCallsForever(t *testing.T) {
	calls := map[string]struct {
		imported
		args []byte
	}{
		"now":   {imported{"cocache", "now_ms", nil, []byte{i64}}, nil},
		"yield": {imported{wasi, "sched_yield", nil, []byte{i32}}, nil},
		"read":  {imported{"cocache", "read", []byte{i32, i32, i32}, []byte{i32}}, slices.Concat(i32Const(1), i32Const(0), i32Const(9))},
	}
	for name, c := range calls {
		t.Run(name, func(t *testing.T) {
			a := guest(slices.Concat(forever(slices.Concat(c.args, []byte{opCall, 0, opDrop})...), i64Const(0)))
			a.imports = []imported{c.imported}
			begun := time.Now()
			l := mustOpen(t, Spec{Module: a.bytes(), Timeout: 200 * time.Millisecond, Capabilities: quiet()})
			fails(t, l, "key", loader.TimedOut, "loader.limits.timeout = 200ms")
			if took := time.Since(begun); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

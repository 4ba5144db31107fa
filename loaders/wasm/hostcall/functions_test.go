package hostcall

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/sdk/abi"
)

// Pointers that a guest hands to the host are judged there.
func TestArguments(t *testing.T) {
	mod := guest(t)
	for _, c := range []struct {
		module, name string
		args         int
		want         int32
	}{
		{"cocache", "setting", 4, abi.ErrBadArgument},
		{"cocache", "secret", 4, abi.ErrBadArgument},
		{"cocache", "random", 2, abi.ErrBadArgument},
		{"cocache", "fetch", 2, abi.ErrLimit},
		{"cocache", "get", 4, abi.ErrBadArgument},
		{"cocache", "info", 3, abi.ErrBadArgument},
		{"cocache", "read", 3, abi.ErrBadArgument},
		{"cocache", "close", 1, abi.ErrBadArgument},
		{"cocache", "traceparent", 2, abi.ErrNotFound},
		{wasiModule, "random_get", 2, errnoFault},
		{wasiModule, "args_sizes_get", 2, errnoFault},
		{wasiModule, "fd_write", 4, errnoBadf},
		{wasiModule, "fd_close", 1, errnoBadf},
		{wasiModule, "fd_prestat_get", 2, errnoBadf},
		{wasiModule, "poll_oneoff", 4, errnoInval},
		{wasiModule, "clock_res_get", 2, errnoInval},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := offered(t, c.module, c.name)
			if !slices.Equal(f.params, types(c.args)) || !slices.Equal(f.results, types(1)) {
				t.Fatalf("the type is %v -> %v", f.params, f.results)
			}
			ctx, call := NewHost(capability.Set{}, time.Minute).Begin(t.Context())
			defer call.End()
			// Every argument is all ones.
			stack := slices.Repeat([]uint64{math.MaxUint32}, c.args)
			f.body.Call(ctx, mod, stack)
			if got := api.DecodeI32(stack[0]); got != c.want {
				t.Errorf("answers %d, want %d", got, c.want)
			}
		})
	}
}

// A call that is over runs no host function any more.
func TestOver(t *testing.T) {
	ctx, c := NewHost(capability.Set{}, time.Minute).Begin(t.Context())
	defer c.End()
	c.cancel()
	defer func() {
		if p := recover(); p != errOver {
			t.Errorf("panics with %v", p)
		}
	}()
	offered(t, abi.HostModule, "now_ms").body.Call(ctx, guest(t), make([]uint64, 1))
}

func TestLogIsBounded(t *testing.T) {
	mod, log := guest(t), offered(t, abi.HostModule, "log")
	out := logged(t, func(ctx context.Context) {
		for range 500 {
			log.body.Call(ctx, mod, []uint64{1, 0, 60000})
		}
	})
	if n := strings.Count(out, "\n"); n != maxLogLines+1 {
		t.Errorf("%d lines, want %d", n, maxLogLines+1)
	}
	if !strings.Contains(out, "logs too much") || len(out) > maxLogLines*(maxLogLine+200) {
		t.Errorf("the log has %d bytes", len(out))
	}
}

// TestStandardOutput writes two lines and a part of one, cut anywhere.
func TestStandardOutput(t *testing.T) {
	mod, write := guest(t), offered(t, wasiModule, "fd_write")
	mem := mod.Memory()
	out := logged(t, func(ctx context.Context) {
		// The vectors at 0 are {100, 5} and {105, 6}, of the text at 100.
		mem.WriteString(100, "one\ntwo\nthr")
		for i, n := range []uint32{100, 5, 105, 6} {
			mem.WriteUint32Le(uint32(4*i), n)
		}
		stack := []uint64{2, 0, 2, 50}
		write.body.Call(ctx, mod, stack)
		if n, _ := mem.ReadUint32Le(50); stack[0] != errnoSuccess || n != 11 {
			t.Errorf("answers %d, %d bytes written", stack[0], n)
		}
	})
	for _, want := range []string{"level=WARN msg=one\n", "msg=two\n", "msg=thr\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("log %q, want %q", out, want)
		}
	}
}

package wasm

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/runtime/loader"
)

func quiet() capability.Set { return capability.Set{Log: slog.New(slog.DiscardHandler)} }

// good is a guest that answers 0, which is out of memory: enough to be opened.
func good() assembly { return guest(i64Const(0)) }

func TestOpenRefuses(t *testing.T) {
	cases := map[string]struct {
		module []byte
		want   string
	}{
		"nothing":      {nil, "the module is empty"},
		"no module":    {[]byte("#!/bin/sh"), "compile module"},
		"cut":          {good().bytes()[:40], "compile module"},
		"no memory":    {good().with(func(a *assembly) { a.hideMemory = true }).bytes(), "does not export its memory"},
		"no marker":    {good().with(func(a *assembly) { a.funcs[0].export = "" }).bytes(), "cocache_abi_v1"},
		"no load":      {good().with(func(a *assembly) { a.funcs[2].export = "" }).bytes(), "cocache_load (i32, i32) -> (i64): export it"},
		"wrong marker": {good().with(func(a *assembly) { a.funcs[0].params = []byte{i32} }).bytes(), "has the type (i32) -> ()"},
		"wrong alloc": {good().with(func(a *assembly) {
			a.funcs[1].params, a.funcs[1].body = []byte{i64}, i32Const(1)
		}).bytes(), "make it (i32) -> (i32)"},
		"wrong load": {good().with(func(a *assembly) {
			a.funcs[2].results, a.funcs[2].body = []byte{i32}, i32Const(1)
		}).bytes(), "make it (i32, i32) -> (i64)"},
		"wrong load_all": {good().with(func(a *assembly) {
			a.funcs = append(a.funcs, function{export: "cocache_load_all"})
		}).bytes(), "cocache_load_all has the type () -> ()"},
		"program": {good().with(func(a *assembly) {
			a.funcs = append(a.funcs, function{export: "_start"})
		}).bytes(), "build a reactor"},
		"unknown import": {good().with(func(a *assembly) {
			a.imports = []imported{{module: wasi, name: "path_open"}}
		}).bytes(), "wasi_snapshot_preview1.path_open"},
		"unknown module": {good().with(func(a *assembly) {
			a.imports = []imported{{module: "evil\nmodule", name: "f"}}
		}).bytes(), "imports the function evil module.f"},
		"import of another type": {good().with(func(a *assembly) {
			a.imports = []imported{{module: "cocache", name: "log"}}
		}).bytes(), "cocache.log with the type () -> (): it is (i32, i32, i32) -> ()"},
		"4 GiB at the start": {good().with(func(a *assembly) { a.memory = pages(65536) }).bytes(), "declares a memory of 4GiB, more than loader.limits.max-memory = 16MiB"},
		"shared memory":      {good().with(func(a *assembly) { a.memory = []byte{3, 1, 1} }).bytes(), "compile module"},
		"64 bit memory":      {good().with(func(a *assembly) { a.memory = []byte{4, 1} }).bytes(), "compile module"},
		"start section traps": {good().with(func(a *assembly) {
			a.funcs = append(a.funcs, function{body: []byte{opUnreachable}})
			a.start, a.startSet = 3, true
		}).bytes(), "unreachable"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), Spec{Name: "bad.wasm", Module: c.module, MaxMemory: 16 << 20, Capabilities: quiet()})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error = %v, want %q", err, c.want)
			}
			if strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "open wasm module bad.wasm: ") {
				t.Errorf("error = %q, want one line that names the module", err)
			}
		})
	}
}

func TestOpenRefusesLimits(t *testing.T) {
	cases := map[string]struct {
		spec Spec
		want string
	}{
		"one byte":     {Spec{MaxMemory: 1}, "loader.limits.max-memory = 1B: a module needs at least one page of 64KiB"},
		"100 GiB":      {Spec{MaxMemory: 100 << 30}, "loader.limits.max-memory = 100GiB: a module's memory cannot be larger than 4GiB"},
		"negative":     {Spec{MaxMemory: -1}, "loader.limits.max-memory"},
		"no time":      {Spec{Timeout: -1}, "loader.limits.timeout"},
		"no instances": {Spec{MaxInstances: -1}, "loader.limits.max-instances"},
		"no output":    {Spec{MaxOutput: -1}, "loader.limits.max-output-bytes"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.spec.Module, c.spec.Capabilities = good().bytes(), quiet()
			if _, err := Open(t.Context(), c.spec); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error = %v, want %q", err, c.want)
			}
		})
	}
}

func TestOpenTakesLimitsAtTheirEnds(t *testing.T) {
	for _, size := range []int64{pageSize, pageSize + 1, 4 << 30} {
		mustOpen(t, Spec{Module: good().bytes(), MaxMemory: size, Capabilities: quiet()})
	}
	mustOpen(t, Spec{Module: good().with(func(a *assembly) { a.memory = pages(0) }).bytes(), Capabilities: quiet()})
}

// A module that does not come back from its start holds nobody up longer than
// a load would.
func TestOpenBoundsTheStart(t *testing.T) {
	inStart := good().with(func(a *assembly) {
		a.funcs = append(a.funcs, function{body: forever()})
		a.start, a.startSet = 3, true
	})
	inInitialize := good().with(func(a *assembly) {
		a.funcs = append(a.funcs, function{export: "_initialize", body: forever()})
	})
	for name, a := range map[string]assembly{"start section": inStart, "_initialize": inInitialize} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			_, err := Open(t.Context(), Spec{Module: a.bytes(), Timeout: 200 * time.Millisecond, Capabilities: quiet()})
			var e *loader.Error
			if !errors.As(err, &e) || e.Kind != loader.TimedOut || e.Limit != limitTimeout || e.Value != "200ms" {
				t.Fatalf("error = %v, want the timeout", err)
			}
			if took := time.Since(begun); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := Open(ctx, Spec{Module: inStart.bytes(), Capabilities: quiet()})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error = %v, want the context's", err)
		}
	})
}

func TestBatchOnlyWhenExported(t *testing.T) {
	if _, ok := mustOpen(t, Spec{Module: good().bytes(), Capabilities: quiet()}).(loader.BatchLoader); ok {
		t.Error("a module without cocache_load_all is a BatchLoader")
	}
	if _, ok := mustOpen(t, Spec{Module: guestC(t), Capabilities: quiet()}).(loader.BatchLoader); !ok {
		t.Error("a module with cocache_load_all is no BatchLoader")
	}
}

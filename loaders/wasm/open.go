// Package wasm runs loaders that are WebAssembly modules of ABI version 1, see
// package sdk/abi.
//
// It owns the engine and a bounded pool of instances. Open refuses what cannot
// work, in words; after that every trap, limit and malformed answer of a module
// is a *loader.Error, the instance that showed it is thrown away, and the next
// call gets a fresh one. A number that a module wrote is checked before anything
// is done with it. What a module may call in its host is package hostcall's.
//
// Wall-clock time of a call, linear memory, instances, the size of a value, log
// lines and host handles are bounded. What is not bounded yet is said at Open.
package wasm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/loaders/wasm/hostcall"
	"github.com/cocache/cocache/runtime/loader"
)

// What a Spec's zero fields mean.
const (
	DefaultTimeout      = 2 * time.Second
	DefaultMaxMemory    = 64 << 20
	DefaultMaxInstances = 8
	DefaultMaxOutput    = 8 << 20
)

const (
	pageSize = 64 << 10
	// maxMemory is what 32 bit pointers reach.
	maxMemory = 4 << 30
)

// Spec is one namespace's module and its limits.
type Spec struct {
	// Name is the module's in messages, e.g. "users.wasm".
	Name   string
	Module []byte
	// Timeout bounds one call of the guest, the start of a fresh instance
	// included; 0 is DefaultTimeout.
	Timeout time.Duration
	// MaxMemory bounds the linear memory of one instance, in bytes; it is
	// rounded down to pages of 64 KiB. 0 is DefaultMaxMemory.
	MaxMemory int64
	// MaxInstances bounds the calls that run at once; 0 is
	// DefaultMaxInstances.
	MaxInstances int
	// MaxOutput bounds the bytes of one value; 0 is DefaultMaxOutput.
	MaxOutput    int64
	Capabilities capability.Set
}

// Loader is an open module. It is a loader.BatchLoader if, and only if, the
// module exports cocache_load_all.
type Loader interface {
	loader.Loader
	// Close waits for the calls that run, then frees the module. Calls after
	// it fail.
	Close() error
}

// Open compiles the module and starts it once, so that a broken one is refused
// here and not at the first reader. Its errors are about the module or the
// Spec, say what to change, and are *loader.Error when the module's own code
// failed while it started.
//
// What is not bounded yet: the engine looks at the deadline at loop headers and
// in host calls only, so a chain of calls without a loop runs past it;
// table.grow and deep recursion (up to the engine's ceiling, some 100 MB) take
// host memory outside the memory limit; and compiling has no limit of time or
// memory of its own. Until a gate rewrites modules between reading and
// compiling, open only modules whose authors you trust that far.
func Open(ctx context.Context, spec Spec) (Loader, error) {
	if err := spec.complete(); err != nil {
		return nil, fmt.Errorf("open wasm module %s: %w", spec.Name, err)
	}
	l, err := open(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("open wasm module %s: %w", spec.Name, err)
	}
	return l, nil
}

func open(ctx context.Context, spec Spec) (Loader, error) {
	// A gate that rewrites the module belongs here: what it returns is what is
	// compiled, and nothing below looks at the original again.
	binary := spec.Module
	host := hostcall.NewHost(spec.Capabilities, spec.Timeout)
	eng, err := newEngine(ctx, spec, binary)
	if err != nil {
		return nil, err
	}
	l := &single{spec: spec, host: host, engine: eng, pool: newPool(spec.MaxInstances)}
	if err := l.try(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if eng.hasBatch {
		return &batch{l}, nil
	}
	return l, nil
}

// complete fills in the defaults and refuses what makes no sense.
func (s *Spec) complete() error {
	setDefault(&s.Timeout, DefaultTimeout)
	setDefault(&s.MaxMemory, DefaultMaxMemory)
	setDefault(&s.MaxInstances, DefaultMaxInstances)
	setDefault(&s.MaxOutput, DefaultMaxOutput)
	switch {
	case s.Timeout < time.Millisecond:
		return fmt.Errorf("%s = %v: must be 1ms or more", limitTimeout, s.Timeout)
	case s.MaxMemory < pageSize:
		return fmt.Errorf("%s = %s: a module needs at least one page of 64KiB", limitMemory, sizeWords(s.MaxMemory))
	case s.MaxMemory > maxMemory:
		return fmt.Errorf("%s = %s: a module's memory cannot be larger than 4GiB", limitMemory, sizeWords(s.MaxMemory))
	case s.MaxInstances < 1:
		return fmt.Errorf("loader.limits.max-instances = %d: must be 1 or more", s.MaxInstances)
	case s.MaxOutput < 1:
		return fmt.Errorf("%s = %d: must be 1B or more", limitOutput, s.MaxOutput)
	}
	s.MaxMemory -= s.MaxMemory % pageSize
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

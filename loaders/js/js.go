// Package js runs loaders written in TypeScript or JavaScript in this process.
//
// A script is compiled once; each call runs it from a fresh global state, under
// the limits of its Spec, and gets nothing but what its capabilities allow.
// A call that is over time is answered in time even when the engine does not
// stop at once; until it does it counts as one of the instances.
//
// Do not run scripts here that are not trusted: memory is not bounded, and the
// engine has ways to end a process. Package guest runs the same call in a
// worker that can be killed.
package js

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/loaders/js/guest"
	"github.com/cocache/cocache/runtime/loader"
)

const (
	defaultTimeout      = 2 * time.Second
	defaultMaxOutput    = 8 << 20
	defaultMaxInstances = 8

	// grace is what a call may take to stop after its time.
	grace = time.Second
	// closeGrace is what Close waits for beyond the time of a call.
	closeGrace = 2 * time.Second
)

// ErrClosed: the loader was closed.
var ErrClosed = errors.New("loader is closed")

// Spec is a script and what it may do.
type Spec struct {
	// Name is the file's name, for messages; its extension says whether it is
	// TypeScript (.ts, .mts) or JavaScript.
	Name   string
	Source []byte
	// Codec of the namespace: "json" (also when empty), "string", "msgpack" or
	// "raw".
	Codec string
	// Timeout bounds one call, waiting for an instance not included; 0 is 2s.
	Timeout time.Duration
	// MaxOutput bounds the bytes of one value; 0 is 8MiB.
	MaxOutput int64
	// MaxInstances bounds the calls that run at once; 0 is 8.
	MaxInstances int
	Capabilities capability.Set
}

// Loader is an open script. It is a loader.BatchLoader when, and only when,
// the script has loadAll.
type Loader interface {
	loader.Loader
	// Close refuses new calls and waits for those under way, which end at
	// their time limit. Its error says that some did not.
	Close() error
}

// Open compiles a script and runs its top level once, to see what it exports.
func Open(ctx context.Context, s Spec) (Loader, error) {
	if err := s.complete(); err != nil {
		return nil, fmt.Errorf("open script %s: %w", s.Name, err)
	}
	program, err := guest.Compile(s.Name, s.Source)
	if err != nil {
		return nil, fmt.Errorf("open script: %w", err)
	}
	l := &single{spec: s, program: program, slots: make(chan struct{}, s.MaxInstances)}
	var exports guest.Exports
	err = l.bounded(ctx, func(ctx context.Context, deadline time.Time) (err error) {
		exports, err = guest.Inspect(ctx, program, l.host(), l.call(deadline))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open script %s: %w", s.Name, err)
	}
	if exports.LoadAll {
		return &batch{l}, nil
	}
	return l, nil
}

func (s *Spec) complete() error {
	if s.Timeout < 0 || s.MaxOutput < 0 || s.MaxInstances < 0 {
		return errors.New("negative limit")
	}
	switch s.Codec {
	case "":
		s.Codec = "json"
	case "json", "string", "msgpack", "raw":
	default:
		return fmt.Errorf("unknown codec %q", s.Codec)
	}
	if s.Timeout == 0 {
		s.Timeout = defaultTimeout
	}
	if s.MaxOutput == 0 {
		s.MaxOutput = defaultMaxOutput
	}
	if s.MaxInstances == 0 {
		s.MaxInstances = defaultMaxInstances
	}
	if s.Capabilities.Log == nil {
		s.Capabilities.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// single is a script without loadAll.
type single struct {
	spec    Spec
	program *guest.Program
	slots   chan struct{} // one element per running call

	mu     sync.Mutex
	closed bool           // guarded by mu
	calls  sync.WaitGroup // Add only under mu, and not once closed
}

// batch is a script with loadAll.
type batch struct{ *single }

var _ loader.BatchLoader = (*batch)(nil)

// Load calls the script's load.
func (l *single) Load(ctx context.Context, req loader.Request) (loader.Result, error) {
	out, err := l.run(ctx, false, []loader.Request{req})
	if err != nil {
		return loader.Result{}, err
	}
	return out[0].Result, out[0].Err
}

// LoadAll calls the script's loadAll.
func (l *batch) LoadAll(ctx context.Context, reqs []loader.Request) ([]loader.Outcome, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	return l.run(ctx, true, reqs)
}

func (l *single) run(ctx context.Context, all bool, reqs []loader.Request) ([]loader.Outcome, error) {
	var out []loader.Outcome
	err := l.bounded(ctx, func(ctx context.Context, deadline time.Time) (err error) {
		call := l.call(deadline)
		call.Batch, call.Requests = all, reqs
		out, err = guest.Run(ctx, l.program, l.host(), call)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (l *single) call(deadline time.Time) guest.Call {
	c := l.spec.Capabilities
	return guest.Call{
		Namespace: c.Namespace, Codec: l.spec.Codec, Settings: c.Settings, Secrets: c.Secrets,
		MaxOutput: l.spec.MaxOutput, Deadline: deadline,
	}
}

// bounded runs one call of the script as an instance, under the time limit. It
// returns soon after that, or ctx, has ended; what call did is to be used only
// when the error is nil.
func (l *single) bounded(ctx context.Context, call func(ctx context.Context, deadline time.Time) error) error {
	if err := l.acquire(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, l.spec.Timeout)
	deadline, _ := limited.Deadline()
	ended := make(chan error, 1)
	go func() {
		defer l.release()
		defer cancel()
		ended <- call(limited, deadline)
	}()
	select {
	case err := <-ended:
		return l.verdict(ctx, limited, err)
	case <-limited.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case err := <-ended:
		return l.verdict(ctx, limited, err)
	case <-late.C:
		return l.verdict(ctx, limited, limited.Err())
	}
}

// verdict tells the caller's end of a call from the limit's.
func (l *single) verdict(ctx, limited context.Context, err error) error {
	if err == nil || limited.Err() == nil || !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	return &loader.Error{
		Kind: loader.TimedOut, Limit: "loader.limits.timeout", Value: durationText(l.spec.Timeout),
		Message: "the script did not end in time",
	}
}

// durationText is a time as it is written in a configuration: 2s, 1m, 1m30s.
func durationText(d time.Duration) string {
	if d >= time.Minute && d%time.Hour == 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	if d >= time.Minute && d%time.Minute == 0 && d < time.Hour {
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

func (l *single) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		<-l.slots
		return fmt.Errorf("call script %s: %w", l.spec.Name, ErrClosed)
	}
	l.calls.Add(1)
	return nil
}

func (l *single) release() {
	<-l.slots
	l.calls.Done()
}

// Close is that of Loader.
func (l *single) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	// The goroutine outlives a Close that fails, as the calls do it waits for.
	ended := make(chan struct{})
	go func() {
		l.calls.Wait()
		close(ended)
	}()
	late := time.NewTimer(l.spec.Timeout + closeGrace)
	defer late.Stop()
	select {
	case <-ended:
		return nil
	case <-late.C:
		return fmt.Errorf("close script %s: a call does not end", l.spec.Name)
	}
}

// Package loaders opens a tenant's loader: one switch over the engines that can
// run one.
//
// It translates a namespace's configuration into what the engine takes and
// refuses, in words, what that engine does not have. Engines live in the
// packages below, what a loader may ask of its host in package capability.
package loaders

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/loaders/js"
	"github.com/cocache/cocache/loaders/wasm"
	"github.com/cocache/cocache/runtime/loader"
)

// Engine names what runs a loader.
type Engine string

const (
	Wasm Engine = "wasm"
	JS   Engine = "js"
)

// Spec is a loader to open.
type Spec struct {
	Namespace string
	Engine    Engine
	Name      string // of the source in messages
	Source    []byte
	Codec     string // of the namespace
	Settings  map[string]string
	Origins   []string       // that fetch may reach
	Networks  []netip.Prefix // private addresses that fetch may reach
	Limits    Limits
	Log       *slog.Logger // for the guest's lines
}

// Limits of a loader; zero fields are the engines' defaults.
type Limits struct {
	Timeout         time.Duration
	MaxMemory       int64 // wasm only
	MaxInstances    int
	MaxOutputBytes  int64
	MaxHTTPRequests int
	MaxHTTPBytes    int64
}

// Loader is an open loader; it is a loader.BatchLoader if its source has a
// batch.
type Loader interface {
	loader.Loader
	Close() error
}

// Open compiles and checks a loader, so that a broken one is refused before it
// serves.
func Open(ctx context.Context, s Spec) (Loader, error) {
	fetch, err := capability.NewFetcher(capability.FetchConfig{
		Origins: s.Origins, Networks: s.Networks,
		MaxRequests: s.Limits.MaxHTTPRequests, MaxBytes: s.Limits.MaxHTTPBytes,
	})
	if err != nil {
		return nil, fmt.Errorf("open loader of %s: %w", s.Namespace, err)
	}
	opened, err := open(ctx, s, capability.Set{
		Namespace: s.Namespace, Settings: s.Settings, Log: s.Log.With("namespace", s.Namespace, "guest", true), Fetch: fetch,
	})
	if err != nil {
		fetch.Close()
		return nil, fmt.Errorf("open loader of %s: %w", s.Namespace, err)
	}
	return withFetch(opened, fetch), nil
}

func open(ctx context.Context, s Spec, granted capability.Set) (Loader, error) {
	switch s.Engine {
	case Wasm:
		return wasm.Open(ctx, wasm.Spec{Name: s.Name, Module: s.Source, Timeout: s.Limits.Timeout,
			MaxMemory: s.Limits.MaxMemory, MaxInstances: s.Limits.MaxInstances, MaxOutput: s.Limits.MaxOutputBytes,
			Capabilities: granted})
	case JS:
		return js.Open(ctx, js.Spec{Name: s.Name, Source: s.Source, Codec: s.Codec, Timeout: s.Limits.Timeout,
			MaxInstances: s.Limits.MaxInstances, MaxOutput: s.Limits.MaxOutputBytes, Capabilities: granted})
	default:
		return nil, fmt.Errorf("unknown engine %q", s.Engine)
	}
}

// fetching is a loader that closes its fetcher with itself.
type fetching struct {
	Loader
	fetch *capability.Fetcher
}

func (f fetching) Close() error {
	err := f.Loader.Close()
	f.fetch.Close()
	return err
}

// fetchingBatch is fetching for a loader with a batch.
type fetchingBatch struct {
	fetching
	loader.BatchLoader
}

func (f fetchingBatch) Load(ctx context.Context, req loader.Request) (loader.Result, error) {
	return f.fetching.Load(ctx, req)
}

func withFetch(l Loader, fetch *capability.Fetcher) Loader {
	if batch, ok := l.(loader.BatchLoader); ok {
		return fetchingBatch{fetching{l, fetch}, batch}
	}
	return fetching{l, fetch}
}

package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cocache/cocache/host/config"
	"github.com/cocache/cocache/host/httpapi"
	"github.com/cocache/cocache/loaders"
	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/loader"
)

// tenant is one open namespace.
type tenant struct {
	cache  *cache.Cache
	loader loaders.Loader // nil for an external source
	api    httpapi.Namespace
}

// LoaderError: a namespace's loader cannot run, which is a fault of the
// configuration.
type LoaderError struct {
	Namespace string
	Err       error
}

func (e *LoaderError) Error() string {
	return fmt.Sprintf("namespaces.%s.loader: %v", e.Namespace, e.Err)
}
func (e *LoaderError) Unwrap() error { return e.Err }

// openLoader compiles the namespace's loader; nil when it has none.
func openLoader(ctx context.Context, ns config.Namespace, log *slog.Logger) (loaders.Loader, error) {
	l := ns.Loader
	if l == nil {
		return nil, nil
	}
	opened, err := loaders.Open(ctx, loaders.Spec{
		Namespace: ns.Name, Engine: loaders.Engine(l.Engine), Name: l.Name, Source: l.Source,
		Codec: string(ns.Policy.Codec), Settings: l.Settings, Origins: l.AllowHTTP, Networks: l.AllowNetworks,
		Limits: loaders.Limits(l.Limits), Log: log,
	})
	if err != nil {
		return nil, &LoaderError{ns.Name, err}
	}
	return opened, nil
}

// openLoaders opens every namespace's loader, or none and says all that is wrong.
func openLoaders(ctx context.Context, cfg *config.Config, log *slog.Logger) (map[string]loaders.Loader, error) {
	opened := map[string]loaders.Loader{}
	var errs []error
	for _, ns := range cfg.Namespaces {
		l, err := openLoader(ctx, ns, log)
		opened[ns.Name] = l
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		closeLoaders(opened)
		return nil, err
	}
	return opened, nil
}

func closeLoaders(opened map[string]loaders.Loader) {
	for _, l := range opened {
		if l != nil {
			l.Close() // it never served: nothing is under way
		}
	}
}

func (h *Host) openTenant(ctx context.Context, ns config.Namespace, l loaders.Loader) (*tenant, error) {
	node := entry.NewNodeID()
	var source loader.Loader // stays nil without one
	if l != nil {
		source = l
	}
	c, err := cache.New(ctx, cache.Options{
		Name: ns.Name, Policy: ns.Policy, Loader: source, Node: node, Logger: h.log,
		L1: h.redis.Namespace(ns.Name, node), Feed: h.feed,
		Observer: h.metrics.Namespace(ns.Name),
	})
	if err != nil {
		return nil, err
	}
	h.metrics.Watch(ns.Name, c.Stats)
	return &tenant{cache: c, loader: l, api: httpapi.Namespace{
		Name: ns.Name, Type: ns.Type, Codec: ns.Policy.Codec, CacheControl: ns.CacheControl, Cache: c,
	}}, nil
}

// close waits for what is under way until ctx ends; what runs then ends with the
// process.
func (t *tenant) close(ctx context.Context) error {
	err := t.cache.Close(ctx)
	if t.loader == nil {
		return err
	}
	closed := make(chan error, 1)
	go func() { closed <- t.loader.Close() }()
	select {
	case closeErr := <-closed:
		if closeErr != nil {
			err = errors.Join(err, fmt.Errorf("close loader: %w", closeErr))
		}
	case <-ctx.Done():
		err = errors.Join(err, fmt.Errorf("close loader of %s: calls still under way: %w", t.api.Name, ctx.Err()))
	}
	return err
}

// ErrRedis: Redis cannot be reached.
var ErrRedis = errors.New("redis cannot be reached")

// Check does what Open does before it listens: every loader is compiled and
// tried under its limits and, unless offline, Redis runs a script. It reports
// every loader that is broken.
func Check(ctx context.Context, cfg *config.Config, log *slog.Logger, offline bool) error {
	opened, err := openLoaders(ctx, cfg, log)
	closeLoaders(opened)
	if err != nil || offline || cfg.Redis.Embedded() {
		return err
	}
	options, err := redisOptions(cfg.Redis, log)
	if err != nil {
		return err
	}
	client := l1.Open(options)
	defer client.Close()
	if err := client.Probe(ctx); err != nil {
		return fmt.Errorf("%w: %v: %w", ErrRedis, cfg.Redis.Addresses, err)
	}
	return nil
}

// Package httpapi is the data plane over HTTP: /v1/namespaces and what is below
// it, for namespaces of type cache.
//
// It owns how a path names a key, what a request may ask for, and how an answer
// or an error looks; a key reaches the cache as exactly the bytes that its
// client meant, or the request is refused. It never redirects, never tidies a
// path, and names a key neither in a problem nor in a log. Paths and methods
// that it does not know share one word, so that what it reports does not grow
// with what strangers send.
//
// It does not listen, time out slow clients or bound headers: that is the
// server's part. Probes and metrics are the Fallback's.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/policy"
)

// Cache is what the API needs of a namespace's cache; *cache.Cache is one.
type Cache interface {
	Get(ctx context.Context, key string) (cache.Lookup, error)
	Peek(ctx context.Context, key string) (cache.Lookup, error)
	GetAll(ctx context.Context, keys []string) []cache.Item
	Put(ctx context.Context, key string, value []byte, o cache.PutOptions) error
	PutAll(ctx context.Context, puts []cache.Put) []error
	InvalidateAll(ctx context.Context, keys []string) []cache.Invalidation
}

// Namespace is one name below /v1/namespaces. It is not changed once a
// Directory has handed it out.
type Namespace struct {
	Name  string
	Type  string // TypeCache when empty
	Cache Cache
	Codec policy.Codec // policy.JSON when empty
	// CacheControl is sent with values; "no-store" when empty.
	CacheControl string
}

// TypeCache is the only type of namespace so far.
const TypeCache = "cache"

// Directory knows the namespaces of the moment; a request asks it once, so a
// reload that swaps them disturbs none that is under way.
type Directory interface {
	Namespace(name string) (*Namespace, bool)
	Names() []string
}

// Limits bound what one request may hand in; zero fields are the defaults.
type Limits struct {
	MaxKeyBytes   int   // 4 KiB; told only, the cache judges
	MaxValueBytes int64 // 8 MiB
	MaxBatchKeys  int   // 1,000
	MaxBatchBytes int64 // 64 MiB, of the body of a batch and of the values in its answer
}

func (l Limits) withDefaults() Limits {
	def := policy.Default().Limits
	if l.MaxKeyBytes == 0 {
		l.MaxKeyBytes = def.MaxKeyBytes
	}
	if l.MaxValueBytes == 0 {
		l.MaxValueBytes = def.MaxValueBytes
	}
	if l.MaxBatchKeys == 0 {
		l.MaxBatchKeys = def.MaxBatchKeys
	}
	if l.MaxBatchBytes == 0 {
		l.MaxBatchBytes = 64 << 20
	}
	return l
}

// Options of the handler.
type Options struct {
	Namespaces Directory
	Limits     Limits
	// Loopback says that the listener is on a loopback address or a socket:
	// only local names, and Hosts, may then stand in Host.
	Loopback bool
	// Hosts are further names under which a loopback listener is reached.
	Hosts []string
	// Draining reports that the process is about to end; nil: never.
	Draining func() bool
	// Fallback answers /livez, /readyz and /metrics; nil: not found.
	Fallback http.Handler
	Logger   *slog.Logger // slog.Default()
	// Observe is told of every request but the Fallback's, by the name of its
	// operation or "other"; status 499 is a client that went away. May be nil.
	Observe func(operation string, status int, took time.Duration)
}

// New makes the handler. It is safe for concurrent use.
func New(o Options) http.Handler {
	a := &api{
		namespaces: o.Namespaces, limits: o.Limits.withDefaults(), fallback: o.Fallback,
		guard:    newGuard(o.Loopback, o.Hosts),
		draining: o.Draining, log: o.Logger, observe: o.Observe, routes: routes(),
	}
	if a.draining == nil {
		a.draining = func() bool { return false }
	}
	if a.log == nil {
		a.log = slog.Default()
	}
	if a.observe == nil {
		a.observe = func(string, int, time.Duration) {}
	}
	return a
}

type api struct {
	namespaces Directory
	limits     Limits
	guard      guard
	draining   func() bool
	fallback   http.Handler
	log        *slog.Logger
	observe    func(operation string, status int, took time.Duration)
	routes     map[resource]map[string]operation // by method
}

// ServeHTTP judges the path before anything else sees it.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	where, refused := locate(rawPath(r.URL))
	if refused == nil {
		refused = a.guard.check(r)
	}
	if refused == nil && where.resource == probe && a.fallback != nil {
		a.fallback.ServeHTTP(w, r)
		return
	}
	c := &call{api: a, w: w, r: r, target: where, status: http.StatusInternalServerError}
	defer func() { a.observe(c.name(), c.status, time.Since(began)) }()
	if refused == nil {
		refused = c.guarded()
	}
	if refused != nil {
		c.refuse(refused)
	}
}

// guarded serves, and makes an answer of a panic, which is a fault of ours and
// must be seen in the log; one that comes after the answer began cuts it off.
func (c *call) guarded() (refused *problem) {
	begun := c.status
	defer func() {
		switch p := recover(); {
		case p == nil:
		case p == http.ErrAbortHandler:
			panic(p)
		default:
			c.log.Error("request panicked", "operation", c.name(), "panic", p, "stack", string(debug.Stack()))
			if c.status != begun {
				panic(http.ErrAbortHandler)
			}
			refused = &problem{status: http.StatusInternalServerError, code: "internal", detail: "the service failed; its log says why"}
		}
	}()
	return c.serve()
}

package httpapi_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cocache/cocache/host/httpapi"
	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/policy"
)

// fake is a cache that answers as told and remembers what it was asked.
type fake struct {
	mu    sync.Mutex
	found map[string]cache.Item // of Get, Peek and GetAll; others are Absent, from L1
	puts  []put
	gone  []string // invalidated keys
	err   error    // of writes
	queue bool     // invalidations are queued
	calls []string // methods called, in order
	get   func(ctx context.Context, key string) (cache.Lookup, error)
}

type put struct {
	key, value string
	options    cache.PutOptions
}

func (f *fake) lookup(method, key string) (cache.Lookup, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, method)
	if item, ok := f.found[key]; ok {
		return item.Lookup, item.Err
	}
	return cache.Lookup{Kind: cache.Absent, Source: cache.FromL1, TTL: 12 * time.Second}, nil
}

func (f *fake) Get(ctx context.Context, key string) (cache.Lookup, error) {
	if f.get != nil {
		return f.get(ctx, key)
	}
	return f.lookup("get", key)
}

func (f *fake) Peek(_ context.Context, key string) (cache.Lookup, error) {
	return f.lookup("peek", key)
}

func (f *fake) GetAll(_ context.Context, keys []string) []cache.Item {
	items := make([]cache.Item, len(keys))
	for i, key := range keys {
		items[i].Lookup, items[i].Err = f.lookup("getall", key)
	}
	return items
}

func (f *fake) Put(_ context.Context, key string, value []byte, o cache.PutOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.puts = append(f.puts, put{key, string(value), o})
	}
	return f.err
}

func (f *fake) PutAll(ctx context.Context, puts []cache.Put) []error {
	errs := make([]error, len(puts))
	for i, p := range puts {
		errs[i] = f.Put(ctx, p.Key, p.Value, p.PutOptions)
	}
	return errs
}

func (f *fake) InvalidateAll(_ context.Context, keys []string) []cache.Invalidation {
	f.mu.Lock()
	defer f.mu.Unlock()
	gone := make([]cache.Invalidation, len(keys))
	for i := range gone {
		gone[i] = cache.Invalidation{Queued: f.queue, Err: f.err}
	}
	f.gone = append(f.gone, keys...)
	return gone
}

// directory has namespaces by name.
type directory map[string]*httpapi.Namespace

func (d directory) Namespace(name string) (*httpapi.Namespace, bool) {
	n, ok := d[name]
	return n, ok
}

func (d directory) Names() []string {
	var names []string
	for name := range d {
		names = append(names, name)
	}
	return names
}

// one is a directory of one namespace "n".
func one(f *fake, c policy.Codec) directory {
	return directory{"n": {Name: "n", Cache: f, Codec: c}}
}

// handler serves f as the namespace "n".
func handler(f *fake, c policy.Codec, change ...func(*httpapi.Options)) http.Handler {
	o := httpapi.Options{Namespaces: one(f, c), Logger: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&o)
	}
	return httpapi.New(o)
}

// request is one to ask a handler; headers are "Name: value".
func request(method, path, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func ask(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func bodyOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// problemOf decodes a problem and checks what all of them have.
func problemOf(t *testing.T, resp *http.Response) map[string]any {
	t.Helper()
	body := bodyOf(t, resp)
	var p map[string]any
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("status %d, not a problem: %v: %s", resp.StatusCode, err, body)
	}
	if ct := resp.Header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("content type %q", ct)
	}
	if p["type"] != "about:blank" || p["title"] != http.StatusText(resp.StatusCode) || p["status"] != float64(resp.StatusCode) ||
		p["detail"] == "" || len(p["requestId"].(string)) != 16 {
		t.Errorf("not a whole problem: %s", body)
	}
	if resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers of a problem: %v", resp.Header)
	}
	return p
}

// wantProblem checks status and code.
func wantProblem(t *testing.T, resp *http.Response, status int, code string) map[string]any {
	t.Helper()
	p := problemOf(t, resp)
	if resp.StatusCode != status || p["code"] != code {
		t.Errorf("got %d %v, want %d %s (%v)", resp.StatusCode, p["code"], status, code, p["detail"])
	}
	return p
}

func value(text string) cache.Item {
	return cache.Item{Lookup: cache.Lookup{Kind: cache.Value, Source: cache.FromL2, Value: text,
		TTL: 42500 * time.Millisecond, LocalTTL: 7900 * time.Millisecond}}
}

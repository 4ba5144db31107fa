package loadertest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/runtime/loader"
)

func testLog(t *testing.T, open Opener) {
	var lines recorder
	o := options(t)
	o.Log = slog.New(&lines)
	l := open(t, o)
	equal(t, must(t, l, loader.Request{Key: "log/hear, hear"}), loader.Result{Value: []byte("ok")})
	if !lines.has(slog.LevelInfo, "hear, hear") {
		t.Fatalf("the line is not in the log: %v", lines.records)
	}
	must(t, l, loader.Request{Key: "log/first\nlevel=error second\x1b[31m"})
	for _, r := range lines.records {
		if strings.ContainsAny(r.Message, "\n\x1b") {
			t.Errorf("the line %q holds control characters", r.Message)
		}
	}
}

// recorder keeps what is logged.
type recorder struct {
	mu      sync.Mutex
	records []slog.Record // guarded by mu
}

func (*recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r *recorder) WithAttrs([]slog.Attr) slog.Handler     { return r }
func (r *recorder) WithGroup(string) slog.Handler          { return r }

func (r *recorder) Handle(_ context.Context, rec slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, rec)
	return nil
}

// has says whether a line of that level holds the text, in its message or in
// an attribute.
func (r *recorder) has(level slog.Level, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range r.records {
		found := strings.Contains(rec.Message, text)
		rec.Attrs(func(a slog.Attr) bool {
			found = found || strings.Contains(a.Value.String(), text)
			return true
		})
		if found && rec.Level == level {
			return true
		}
	}
	return false
}

func testFetch(t *testing.T, open Opener) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Method+" "+r.URL.Path)
	}))
	t.Cleanup(srv.Close)
	o := options(t)
	o.Fetch = fetcher(t, capability.FetchConfig{
		Origins: []string{srv.URL}, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
	})
	l := open(t, o)
	equal(t, must(t, l, loader.Request{Key: "fetch/" + srv.URL + "/a"}), loader.Result{Value: []byte("GET /a")})
	denied := mustFail(t, l, loader.Request{Key: "fetch/https://elsewhere.example/"})
	if denied.Kind != loader.Failed {
		t.Errorf("error = %v, want the kind failed", denied)
	}
	works(t, l)

	none := open(t, options(t))
	mustFail(t, none, loader.Request{Key: "fetch/" + srv.URL + "/a"})
}

package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cocache/cocache/host/httpapi"
	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/runtime/policy"
)

// faults are errors and the problem each is, to a reader as to a writer.
var faults = []struct {
	err     error
	status  int
	code    string
	members string // further ones, as fmt writes the map
	retry   string
}{
	{&loader.Error{Kind: loader.Failed, Message: "no\nluck", Code: "E1"}, 502, "loader-failed", "map[loaderCode:E1]", ""},
	{&loader.Error{Kind: loader.Limited, Limit: "loader.limits.max-fuel", Value: "9"}, 502, "loader-limit", "map[limit:loader.limits.max-fuel value:9]", ""},
	{&loader.Error{Kind: loader.TimedOut, Limit: "loader.limits.timeout", Value: "2s"}, 504, "load-timeout", "map[limit:loader.limits.timeout value:2s]", ""},
	{&loader.Error{Kind: loader.Retry}, 503, "loader-retry", "map[]", "1"},
	{&loader.Error{Kind: loader.Retry, After: 1500 * time.Millisecond}, 503, "loader-retry", "map[]", "2"},
	{&loader.Error{Kind: loader.BadKey, Message: "secretkey is not UTF-8"}, 400, "invalid-key", "map[]", ""},
	{&cache.OverloadedError{Limit: "loads.max-queued", Value: "3", RetryAfter: time.Second}, 503, "overloaded", "map[]", "1"},
	{&cache.OverloadedError{}, 503, "overloaded", "map[]", "1"},
	{&cache.LoadTimeoutError{Timeout: 30 * time.Second}, 504, "load-timeout", "map[limit:loads.timeout value:30s]", ""},
	{&cache.ReadError{Err: errors.New("dial 10.0.0.1")}, 503, "l1-unavailable", "map[]", ""},
	{&cache.WriteError{Op: "put", Err: errors.New("dial")}, 503, "write-failed", "map[outcomeUnknown:false]", ""},
	{&cache.WriteError{Op: "put", OutcomeUnknown: true, Err: errors.New("eof")}, 503, "write-failed", "map[outcomeUnknown:true]", ""},
	{&cache.InvalidError{What: "key", Limit: "limits.max-key-bytes", Value: "4096", Text: "long"}, 400, "invalid-key", "map[]", ""},
	{&cache.InvalidError{What: "value", Limit: "limits.max-value-bytes", Value: "9", Text: "long"}, 413, "value-too-large", "map[limit:limits.max-value-bytes value:9]", ""},
	{&cache.InvalidError{What: "value", Text: "bad"}, 400, "invalid-value", "map[]", ""},
	{&cache.InvalidError{What: "ttl", Text: "bad"}, 400, "invalid-ttl", "map[]", ""},
	{&cache.InvalidError{What: "content-type", Text: "bad"}, 415, "unsupported-media-type", "map[]", ""},
	{cache.ErrRecursion, 502, "loader-failed", "map[]", ""},
	{fmt.Errorf("wrapped: %w", cache.ErrClosed), 503, "draining", "map[]", ""},
}

func TestFaults(t *testing.T) {
	for _, c := range faults {
		var log bytes.Buffer
		quiet := func(o *httpapi.Options) {
			o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		}
		read := &fake{found: map[string]cache.Item{"secretkey": {Err: c.err}}}
		for _, resp := range []*http.Response{
			ask(handler(read, policy.JSON, quiet), request("GET", key, "")),
			ask(handler(&fake{err: c.err}, policy.JSON, quiet), request("PUT", key, "1")),
			ask(handler(&fake{err: c.err}, policy.JSON, quiet), request("DELETE", key, "")),
		} {
			p := wantProblem(t, resp, c.status, c.code)
			if p["namespace"] != "n" {
				t.Errorf("%v: namespace %v", c.err, p["namespace"])
			}
			if text := fmt.Sprint(p); strings.Contains(text, "secretkey") || strings.Contains(text, "10.0.0.1") {
				t.Errorf("%v: says too much: %s", c.err, text)
			}
			for _, member := range []string{"type", "title", "status", "detail", "code", "requestId", "namespace"} {
				delete(p, member)
			}
			if got := fmt.Sprint(p); got != c.members {
				t.Errorf("%v: members %s, want %s", c.err, got, c.members)
			}
			if got := resp.Header.Get("Retry-After"); got != c.retry {
				t.Errorf("%v: Retry-After %q, want %q", c.err, got, c.retry)
			}
			if closes := resp.Header.Get("Connection") == "close"; closes != (c.code == "draining") {
				t.Errorf("%v: Connection %q", c.err, resp.Header.Get("Connection"))
			}
		}
		if strings.Contains(log.String(), "secretkey") {
			t.Errorf("%v: the log names the key: %s", c.err, log.String())
		}
	}
}

// An error that nobody documents is the loader's where one ran, ours otherwise;
// its text goes to the log alone.
func TestUnknownErrors(t *testing.T) {
	boom := errors.New("password=hunter2")
	read := &fake{found: map[string]cache.Item{"secretkey": {Err: boom}}}
	for _, c := range []struct {
		f      *fake
		r      *http.Request
		status int
		code   string
	}{
		{read, request("GET", key, ""), 502, "loader-failed"},
		{read, request("GET", key, "", "Cache-Control: only-if-cached"), 500, "internal"},
		{&fake{err: boom}, request("PUT", key, "1"), 500, "internal"},
		{&fake{err: boom}, request("DELETE", key, ""), 500, "internal"},
		{&fake{found: map[string]cache.Item{"secretkey": {Err: context.Canceled}}}, request("GET", key, ""), 502, "loader-failed"}, // not the client's
	} {
		var log bytes.Buffer
		p := wantProblem(t, ask(handler(c.f, policy.JSON, func(o *httpapi.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }), c.r), c.status, c.code)
		if strings.Contains(fmt.Sprint(p), "hunter2") {
			t.Errorf("the client was told %v", p)
		}
		if !strings.Contains(log.String(), p["requestId"].(string)) {
			t.Errorf("the log does not know the request: %s", log.String())
		}
	}
}

// A client that has gone must not be sent something that looks like a value.
func TestClientGone(t *testing.T) {
	f := &fake{get: func(ctx context.Context, _ string) (cache.Lookup, error) {
		<-ctx.Done()
		return cache.Lookup{}, context.Cause(ctx)
	}}
	status := 0
	h := handler(f, policy.JSON, func(o *httpapi.Options) {
		o.Observe = func(_ string, s int, _ time.Duration) { status = s }
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	defer func() {
		if p := recover(); p != http.ErrAbortHandler || status != 499 {
			t.Errorf("panic %v, status %d", p, status)
		}
	}()
	ask(h, request("GET", key, "").WithContext(ctx))
	t.Error("an answer was sent")
}

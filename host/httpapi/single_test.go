package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cocache/cocache/host/httpapi"
	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/policy"
)

const key = "/v1/namespaces/n/keys/secretkey"

func TestGet(t *testing.T) {
	for _, c := range []struct {
		codec policy.Codec
		item  cache.Lookup
		ctype string
	}{
		{policy.JSON, cache.Lookup{Value: `{"k":1,"k":2, "n":12345678901234567890}`}, "application/json"},
		{"", cache.Lookup{Value: "null"}, "application/json"},
		{policy.String, cache.Lookup{Value: ""}, "text/plain; charset=utf-8"},
		{policy.Msgpack, cache.Lookup{Value: "\x01"}, "application/vnd.msgpack"},
		{policy.Raw, cache.Lookup{Value: ""}, "application/octet-stream"},
		{policy.Raw, cache.Lookup{Value: "<html>", ContentType: "text/html"}, "text/html"},
		{policy.JSON, cache.Lookup{Value: "1", ContentType: "text/html"}, "application/json"},
	} {
		c.item.Kind, c.item.Source, c.item.TTL, c.item.LocalTTL = cache.Value, cache.FromL2, 42500*time.Millisecond, 7*time.Second
		f := &fake{found: map[string]cache.Item{"secretkey": {Lookup: c.item}}}
		for _, method := range []string{"GET", "HEAD"} {
			resp := ask(handler(f, c.codec), request(method, key, "", "If-None-Match: *", "Cache-Control: no-cache, max-age=x", "Range: bytes=0-1"))
			want := map[string]string{"Content-Type": c.ctype, "Content-Length": fmt.Sprint(len(c.item.Value)), "Cache-Control": "no-store",
				"Cocache-Ttl": "42", "Cache-Status": "cocache-l2; hit; ttl=7", "X-Content-Type-Options": "nosniff"}
			for name, text := range want {
				if got := resp.Header.Get(name); got != text {
					t.Errorf("%s %s: %s %q, want %q", method, c.codec, name, got, text)
				}
			}
			body := bodyOf(t, resp)
			if resp.StatusCode != 200 || method == "GET" && body != c.item.Value || method == "HEAD" && body != "" {
				t.Errorf("%s %s: %d %q", method, c.codec, resp.StatusCode, body)
			}
		}
		if got := strings.Join(f.calls, " "); got != "get peek" {
			t.Errorf("calls %s", got)
		}
	}
}

func TestCacheControlOfTheNamespace(t *testing.T) {
	f := &fake{found: map[string]cache.Item{"secretkey": value("1")}}
	d := one(f, policy.JSON)
	d["n"].CacheControl = "private, max-age=5"
	h := httpapi.New(httpapi.Options{Namespaces: d})
	if got := ask(h, request("GET", key, "")).Header.Get("Cache-Control"); got != "private, max-age=5" {
		t.Errorf("got %q", got)
	}
	wantProblem(t, ask(h, request("GET", key+"2", "")), 404, "key-not-found") // which is never to be kept
}

func TestMissing(t *testing.T) {
	unpopulated := map[string]cache.Item{"secretkey": {Lookup: cache.Lookup{Kind: cache.Unpopulated}}}
	for _, c := range []struct {
		found          map[string]cache.Item
		method, header string
		status         int
		code           string
		cacheStatus    string
	}{
		{nil, "GET", "", 404, "key-not-found", "cocache-l1; hit; ttl=12; detail=absent, cocache-l2; fwd=uri-miss"},
		{nil, "GET", "Cache-Control: only-if-cached", 404, "key-not-found", "cocache-l1; hit; ttl=12; detail=absent, cocache-l2; fwd=uri-miss"},
		{unpopulated, "GET", "", 404, "key-not-found", "cocache-l1; fwd=uri-miss; detail=unpopulated"},
		{unpopulated, "GET", "Cache-Control: only-if-cached", 504, "not-cached", ""},
		{unpopulated, "HEAD", "", 504, "", ""},
		{nil, "HEAD", "", 404, "", "cocache-l1; hit; ttl=12; detail=absent, cocache-l2; fwd=uri-miss"},
	} {
		resp := ask(handler(&fake{found: c.found}, policy.JSON), request(c.method, key, "", c.header))
		if got := resp.Header.Get("Cache-Status"); got != c.cacheStatus || resp.StatusCode != c.status {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.header, resp.StatusCode, got, c.status, c.cacheStatus)
		}
		if (resp.Header.Get("Cocache-TTL") == "") != (c.cacheStatus == "") {
			t.Errorf("%s %s: Cocache-TTL %q", c.method, c.header, resp.Header.Get("Cocache-TTL"))
		}
		if c.code != "" {
			if p := wantProblem(t, resp, c.status, c.code); p["namespace"] != "n" {
				t.Errorf("namespace %v", p["namespace"])
			}
		} else if body := bodyOf(t, resp); body != "" {
			t.Errorf("HEAD has a body: %q", body)
		}
	}
}

func TestPut(t *testing.T) {
	for _, c := range []struct {
		codec       policy.Codec
		query, body string
		ctype       string
		want        cache.PutOptions
	}{
		{policy.JSON, "", `{"a":1}`, "", cache.PutOptions{}},
		{policy.JSON, "?ttl=1h30m", `{"a":1}`, "application/json; charset=utf-8", cache.PutOptions{TTL: 90 * time.Minute, ContentType: "application/json; charset=utf-8"}},
		{policy.String, "?ttl=forever", "", "text/plain", cache.PutOptions{TTL: cache.Forever, ContentType: "text/plain"}},
		{policy.Raw, "", "", "", cache.PutOptions{}},
		{policy.Raw, "", "\x00\xff", "image/x-mine; a=b", cache.PutOptions{ContentType: "image/x-mine; a=b"}},
	} {
		f := &fake{}
		r := request("PUT", key+c.query, c.body)
		if c.ctype != "" {
			r.Header.Set("Content-Type", c.ctype)
		}
		resp := ask(handler(f, c.codec), r)
		if body := bodyOf(t, resp); resp.StatusCode != 204 || body != "" {
			t.Errorf("%d %q", resp.StatusCode, body)
		}
		if len(f.puts) != 1 || f.puts[0] != (put{"secretkey", c.body, c.want}) {
			t.Errorf("stored %+v", f.puts)
		}
	}
}

func TestPutRefused(t *testing.T) {
	for _, c := range []struct {
		query, header string
		status        int
		code          string
	}{
		{"?ttl=0", "", 400, "invalid-ttl"},
		{"?ttl=", "", 400, "invalid-ttl"},
		{"?ttl=-1s", "", 400, "invalid-ttl"},
		{"?ttl=300y", "", 400, "invalid-ttl"},
		{"?ttl=1s&ttl=2s", "", 400, "invalid-request"},
		{"?TTL=1s", "", 400, "invalid-request"},
		{"?ttl=1s;x", "", 400, "invalid-request"},
		{"?ttl=%zz", "", 400, "invalid-request"},
		{"?token=abc", "", 400, "token-in-url"},
		{"?token", "", 400, "token-in-url"},
		{"", "If-Match: *", 400, "precondition-unsupported"},
		{"", "If-None-Match: *", 400, "precondition-unsupported"},
		{"", "Cocache-Version: 3", 400, "precondition-unsupported"},
		{"", "If-Unmodified-Since: now", 400, "precondition-unsupported"},
		{"", "Content-Range: bytes 0-1/2", 400, "invalid-request"},
		{"", "Content-Encoding: gzip", 415, "unsupported-media-type"},
		{"", "Content-Type: application/x-www-form-urlencoded", 415, "unsupported-media-type"},
		{"", "Content-Type: application/json; charset=utf-16", 415, "unsupported-media-type"},
	} {
		f := &fake{}
		wantProblem(t, ask(handler(f, policy.JSON), request("PUT", key+c.query, "1", c.header)), c.status, c.code)
		if len(f.puts) != 0 {
			t.Errorf("%s%s: stored all the same", c.query, c.header)
		}
	}
	r := request("PUT", key, "1", "Content-Type: application/json", "Content-Type: text/plain")
	wantProblem(t, ask(handler(&fake{}, policy.JSON), r), 415, "unsupported-media-type")
}

// untouched is a body that must not be read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func TestPutTooLarge(t *testing.T) {
	small := func(o *httpapi.Options) { o.Limits.MaxValueBytes = 10 }
	f := &fake{}
	r := request("PUT", key, "")
	r.Body, r.ContentLength = io.NopCloser(untouched{t}), 11
	p := wantProblem(t, ask(handler(f, policy.Raw, small), r), 413, "value-too-large")
	if p["limit"] != "limits.max-value-bytes" || p["value"] != "10" {
		t.Errorf("got %v", p)
	}
	r = request("PUT", key, strings.Repeat("x", 11))
	r.ContentLength = -1 // chunked
	wantProblem(t, ask(handler(f, policy.Raw, small), r), 413, "value-too-large")
	if resp := ask(handler(f, policy.Raw, small), request("PUT", key, strings.Repeat("x", 10))); resp.StatusCode != 204 || len(f.puts) != 1 {
		t.Errorf("at the limit: %d, %d stored", resp.StatusCode, len(f.puts))
	}
}

func TestDelete(t *testing.T) {
	f := &fake{}
	if resp := ask(handler(f, policy.JSON), request("DELETE", "/v1/namespaces/n/keys-b64/AP8Q", "")); resp.StatusCode != 204 {
		t.Errorf("got %d", resp.StatusCode)
	}
	if len(f.gone) != 1 || f.gone[0] != "\x00\xff\x10" {
		t.Errorf("invalidated %q", f.gone)
	}
	for _, header := range []string{"If-Match: *", "If-None-Match: *", "Cocache-Version: 1"} {
		wantProblem(t, ask(handler(f, policy.JSON), request("DELETE", key, "", header)), 400, "precondition-unsupported")
	}
	wantProblem(t, ask(handler(f, policy.JSON), request("DELETE", key+"?ttl=1s", "")), 400, "invalid-request")
	if len(f.gone) != 1 {
		t.Errorf("a refused DELETE invalidated")
	}
}

// A panic is answered, not hung up on.
func TestPanic(t *testing.T) {
	f := &fake{get: func(context.Context, string) (cache.Lookup, error) { panic("boom") }}
	wantProblem(t, ask(handler(f, policy.JSON), request("GET", key, "")), 500, "internal")
}

// An invalidation that Redis could not be told yet is accepted, not done.
func TestDeleteQueued(t *testing.T) {
	h := handler(&fake{queue: true}, policy.JSON)
	if resp := ask(h, request("DELETE", key, "")); resp.StatusCode != 202 {
		t.Errorf("got %d", resp.StatusCode)
	}
	batch := ask(h, request("POST", "/v1/namespaces/n/batch/invalidate", `{"keys":["a"]}`, "Content-Type: application/json"))
	if got := bodyOf(t, batch); got != `{"items":[{"key":"a","status":202}]}` {
		t.Errorf("got %s", got)
	}
}

func TestNamespaces(t *testing.T) {
	d := one(&fake{}, policy.Raw)
	d["b"], d["a"] = &httpapi.Namespace{Name: "b"}, &httpapi.Namespace{Name: "a"}
	h := httpapi.New(httpapi.Options{Namespaces: d})
	if got := bodyOf(t, ask(h, request("GET", "/v1/namespaces", ""))); got != `{"namespaces":["a","b","n"]}` {
		t.Errorf("got %s", got)
	}
	want := `{"codec":"raw","limits":{"maxBatchBytes":67108864,"maxBatchKeys":1000,"maxKeyBytes":4096,"maxValueBytes":8388608},"name":"n","type":"cache"}`
	if got := bodyOf(t, ask(h, request("GET", "/v1/namespaces/n", ""))); got != want {
		t.Errorf("got %s", got)
	}
	empty := httpapi.New(httpapi.Options{Namespaces: directory{}})
	if got := bodyOf(t, ask(empty, request("GET", "/v1/namespaces", ""))); got != `{"namespaces":[]}` {
		t.Errorf("got %s", got)
	}
}

func TestRouting(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int
		code, allow  string
	}{
		{"GET", "/v1/namespaces/other/keys/a", 404, "namespace-not-found", ""},
		{"GET", "/v1/namespaces/a%2Fb", 404, "namespace-not-found", ""},
		{"GET", "/", 404, "not-found", ""},
		{"GET", "/livez", 404, "not-found", ""}, // no fallback
		{"GET", "/v1/namespaces/n/keys/a/b", 404, "not-found", ""},
		{"DELETE", "/v1/namespaces/n", 405, "method-not-allowed", "GET, HEAD"},
		{"POST", "/v1/namespaces", 405, "method-not-allowed", "GET, HEAD"},
		{"PATCH", key, 405, "method-not-allowed", "DELETE, GET, HEAD, PUT"},
		{"OPTIONS", key, 405, "method-not-allowed", "DELETE, GET, HEAD, PUT"},
		{"GET", "/v1/namespaces/n/batch/get", 405, "method-not-allowed", "POST"},
		{"GET", key + "?x=1", 400, "invalid-request", ""},
		{"GET", "/nowhere?token=1", 400, "token-in-url", ""},
		{"GET", "/v1/namespaces/n/keys/..", 400, "invalid-key", ""},
		{"GET", "/v1/namespaces/n//keys/a?token=1", 400, "invalid-request", ""},
	} {
		resp := ask(handler(&fake{}, policy.JSON), request(c.method, c.path, ""))
		wantProblem(t, resp, c.status, c.code)
		if got := resp.Header.Get("Allow"); got != c.allow {
			t.Errorf("%s %s: Allow %q, want %q", c.method, c.path, got, c.allow)
		}
	}
	wantProblem(t, ask(handler(&fake{}, policy.JSON), request("GET", key, "", "If-Match: *")), 400, "precondition-unsupported")
}

func TestFallback(t *testing.T) {
	probes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) })
	observed := 0
	h := handler(&fake{}, policy.JSON, func(o *httpapi.Options) {
		o.Fallback, o.Draining = probes, func() bool { return true }
		o.Observe = func(string, int, time.Duration) { observed++ }
	})
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		if got := bodyOf(t, ask(h, request("GET", path+"?verbose", ""))); got != path {
			t.Errorf("%s: got %s", path, got)
		}
	}
	if observed != 0 {
		t.Errorf("%d probes were counted as operations", observed)
	}
	resp := ask(h, request("GET", key, ""))
	wantProblem(t, resp, 503, "draining")
	if resp.Header.Get("Connection") != "close" {
		t.Errorf("the connection stays open")
	}
}

// What is counted comes from a closed list, whatever strangers ask for.
func TestObserve(t *testing.T) {
	got := map[string]int{}
	h := handler(&fake{}, policy.JSON, func(o *httpapi.Options) {
		o.Observe = func(operation string, status int, _ time.Duration) { got[fmt.Sprint(operation, " ", status)]++ }
	})
	for _, r := range []*http.Request{
		request("GET", key, ""), request("GET", "/v1/namespaces/n/keys/b", ""), request("HEAD", key, ""), request("PUT", key, "1"),
		request("DELETE", key, ""), request("GET", "/v1/namespaces", ""), request("GET", "/v1/namespaces/n", ""),
		request("GET", "/v1/namespaces/who/keys/x", ""), request("GET", "/a", ""), request("GET", "/b", ""), request("BREW", key, ""),
		request("GET", "/v1//", ""), request("POST", "/v1/namespaces/n/batch/get", `{"keys":[]}`, "Content-Type: application/json"),
	} {
		ask(h, r)
	}
	want := map[string]int{"get 404": 3, "head 404": 1, "put 204": 1, "delete 204": 1, "list-namespaces 200": 1, "describe-namespace 200": 1,
		"other 404": 2, "other 405": 1, "other 400": 1, "batch-get 200": 1}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

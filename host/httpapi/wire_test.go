package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cocache/cocache/host/httpapi"
	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/channel"
	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/l1"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/runtime/policy"
)

// listen serves h on a loopback port.
func listen(t *testing.T, h http.Handler) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h, ReadTimeout: 500 * time.Millisecond, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	done := make(chan struct{})
	go func() { srv.Serve(l); close(done) }()
	t.Cleanup(func() { srv.Close(); <-done })
	return l.Addr().String()
}

// send writes text as it is, ends the sending half if asked, and answers all
// that comes back.
func send(t *testing.T, addr, text string, end bool) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	io.WriteString(conn, text)
	if end {
		conn.(*net.TCPConn).CloseWrite()
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Logf("after %d bytes: %v", len(answer), err)
	}
	return string(answer)
}

func TestRawPaths(t *testing.T) {
	f := &fake{found: map[string]cache.Item{"a/b": value("1"), "a|/b": value("2"), "a+b": value("3"), "\xff": value("4")}}
	addr := listen(t, handler(f, policy.JSON, func(o *httpapi.Options) { o.Loopback = true }))
	for _, c := range []struct{ line, want string }{
		{"GET /v1/namespaces/n/keys/a%2Fb", "200"},
		{"GET http://localhost/v1/namespaces/n/keys/a%2Fb", "200"},
		{"GET /v1/namespaces/n/keys/a|%2Fb", "200"}, // a stray byte beside an escape
		{"GET /v1/namespaces/n/keys/a+b", "200"},
		{"GET /v1/namespaces/n/keys/\xff", "200"},
		{"GET /v1/namespaces/n/keys/a/b", "404"},
		{"GET //v1/namespaces/n/keys/a%2Fb", "400"},
		{"DELETE /v1/namespaces/n//keys/a%2Fb", "400"},
		{"PUT /v1/namespaces/n/keys/./a", "400"},
		{"DELETE /v1/namespaces/n/keys/../../n/keys/a", "400"},
		{"GET /v1/namespaces/n/keys/a%2Fb/", "400"},
		{"GET /v1/namespaces/n/keys/..", "400"},
		{"GET /v1/namespaces/n/keys/%2e", "400"},
		{"GET /v1/namespaces/n/keys/%zz", "400"},
		{"GET /v1/namespaces/n/keys/a%", "400"},
		{"OPTIONS *", "200"}, // the server's own
		{"CONNECT localhost:80", "400"},
		{"GET http://evil.test/v1/namespaces/n/keys/a%2Fb", "421"},
	} {
		answer := send(t, addr, c.line+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", false)
		if !strings.HasPrefix(answer, "HTTP/1.1 "+c.want+" ") {
			t.Errorf("%s: got %.60q, want %s", c.line, answer, c.want)
		}
		if strings.Contains(strings.ToLower(answer), "\r\nlocation:") {
			t.Errorf("%s: redirected", c.line)
		}
	}
	if len(f.gone)+len(f.puts) > 0 {
		t.Errorf("a refused path reached the cache: %q %q", f.gone, f.puts)
	}
}

func TestHTTP10(t *testing.T) {
	f := &fake{found: map[string]cache.Item{"a": value("")}}
	addr := listen(t, handler(f, policy.Raw, func(o *httpapi.Options) { o.Loopback = true }))
	answer := send(t, addr, "GET /v1/namespaces/n/keys/a HTTP/1.0\r\n\r\n", false)
	if !strings.HasPrefix(answer, "HTTP/1.0 200 ") || !strings.Contains(answer, "Content-Length: 0\r\n") {
		t.Errorf("got %q", answer)
	}
	for _, c := range []struct{ headers, want string }{
		{"", "400"},
		{"Transfer-Encoding: chunked\r\n", "400"}, // which HTTP/1.0 does not have
		{"Content-Length: 1\r\n", "204"},
	} {
		answer := send(t, addr, "PUT /v1/namespaces/n/keys/a HTTP/1.0\r\n"+c.headers+"\r\n1", false)
		if !strings.HasPrefix(answer, "HTTP/1.0 "+c.want+" ") {
			t.Errorf("%q: got %.60q", c.headers, answer)
		}
	}
	if len(f.puts) != 1 || f.puts[0].value != "1" {
		t.Errorf("stored %q", f.puts)
	}
}

func TestHalfABody(t *testing.T) {
	f := &fake{}
	addr := listen(t, handler(f, policy.Raw))
	const put = "PUT /v1/namespaces/n/keys/a HTTP/1.1\r\nHost: localhost\r\n"
	for _, c := range []struct {
		name, text string
		end        bool
		want       string
	}{
		{"short of its length", put + "Content-Length: 10\r\n\r\nhalf", true, "400"},
		{"a chunk cut", put + "Transfer-Encoding: chunked\r\n\r\n10\r\nhalf", true, "400"},
		{"no last chunk", put + "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", true, "400"},
		{"slow", put + "Content-Length: 10\r\n\r\nhalf", false, "408"},
		{"slow in a chunk", put + "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", false, "408"},
	} {
		answer := send(t, addr, c.text, c.end)
		if !strings.HasPrefix(answer, "HTTP/1.1 "+c.want+" ") || !strings.Contains(answer, "Connection: close\r\n") {
			t.Errorf("%s: got %.80q", c.name, answer)
		}
	}
	if len(f.puts) > 0 {
		t.Errorf("stored %q", f.puts)
	}
}

// A client that only ends its sending half gets no answer that it could take
// for an empty value.
func TestHalfClosedReader(t *testing.T) {
	f := &fake{get: func(ctx context.Context, _ string) (cache.Lookup, error) {
		<-ctx.Done()
		return cache.Lookup{}, context.Cause(ctx)
	}}
	addr := listen(t, handler(f, policy.Raw))
	if answer := send(t, addr, "GET /v1/namespaces/n/keys/a HTTP/1.1\r\nHost: localhost\r\n\r\n", true); answer != "" {
		t.Errorf("got %q", answer)
	}
}

// The connection of a client that was refused for draining ends; one that got
// an ordinary refusal goes on.
func TestConnections(t *testing.T) {
	var drain atomic.Bool
	addr := listen(t, handler(&fake{}, policy.JSON, func(o *httpapi.Options) { o.Draining = drain.Load }))
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for i, want := range []int{404, 404, 503} {
		drain.Store(i == 2)
		fmt.Fprintf(conn, "GET /v1/namespaces/n/keys/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		if resp.StatusCode != want || resp.Close != drain.Load() {
			t.Errorf("request %d: %d, close %v", i, resp.StatusCode, resp.Close)
		}
	}
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("the connection goes on: %v", err)
	}
}

// realCache is a namespace on a Redis of its own.
func realCache(t *testing.T, source loader.Loader, p policy.Policy) *cache.Cache {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	redis := l1.NewEmbedded()
	t.Cleanup(redis.Close)
	client := l1.Open(l1.Options{Addresses: []string{"embedded"}, Dial: redis.Dial, Logger: log})
	t.Cleanup(client.Close)
	feed := channel.Open(client, channel.Options{Logger: log})
	t.Cleanup(func() { feed.Close() })
	node := entry.NewNodeID()
	c, err := cache.New(t.Context(), cache.Options{Name: "n", L1: client.Namespace("n", node), Feed: feed, Node: node,
		Loader: source, Logger: log, Policy: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func TestWithARealCache(t *testing.T) {
	source := loader.Func(func(_ context.Context, req loader.Request) (loader.Result, error) {
		switch req.Key {
		case "none":
			return loader.Result{Status: loader.Absent}, nil
		case "bad":
			return loader.Result{}, loader.Failf("no luck")
		}
		return loader.Result{Value: []byte(req.Key)}, nil
	})
	c := realCache(t, source, policy.Policy{Codec: policy.Raw, TTLJitter: policy.NoJitter, Limits: policy.Limits{MaxKeyBytes: 9}})
	h := httpapi.New(httpapi.Options{Namespaces: directory{"n": {Name: "n", Cache: c, Codec: policy.Raw}}, Logger: slog.New(slog.DiscardHandler)})
	const keys = "/v1/namespaces/n/keys/"
	number := regexp.MustCompile(`ttl=\d+`)
	for i, step := range []struct {
		r                        *http.Request
		status                   int
		body, cacheStatus, ctype string
	}{
		{request("HEAD", keys+"a%2Fb", ""), 504, "", "", ""},
		{request("GET", keys+"a%2Fb", ""), 200, "a/b", "cocache-l1; fwd=uri-miss; stored, cocache-l2; fwd=uri-miss; stored", "application/octet-stream"},
		{request("PUT", keys+"a%2Fb", "", "Content-Type: x/y"), 204, "", "", ""},
		{request("GET", keys+"a%2Fb", ""), 200, "", "cocache-l1; hit; ttl=N, cocache-l2; fwd=uri-miss; stored", "x/y"},
		{request("GET", "/v1/namespaces/n/keys-b64/YS9i", ""), 200, "", "cocache-l2; hit; ttl=N", "x/y"},
		{request("DELETE", "/v1/namespaces/n/keys-b64/YS9i", ""), 204, "", "", ""},
		{request("GET", keys+"a%2Fb", ""), 200, "a/b", "cocache-l1; fwd=uri-miss; stored, cocache-l2; fwd=uri-miss; stored", "application/octet-stream"},
		{request("GET", "/v1/namespaces/n/keys-b64/=", ""), 200, "", "cocache-l1; fwd=uri-miss; stored, cocache-l2; fwd=uri-miss; stored", ""},
		{request("HEAD", keys+"none", ""), 504, "", "", ""},
		{request("GET", keys+"none", "", "Accept: x"), 404, "*", "cocache-l1; fwd=uri-miss; stored, cocache-l2; fwd=uri-miss; stored", ""},
		{request("HEAD", keys+"none", ""), 404, "", "cocache-l2; hit; ttl=N; detail=absent", ""},
		{request("GET", keys+"bad", ""), 502, "*", "", ""},
		{request("GET", keys+"much-too-long", ""), 400, "*", "", ""},
	} {
		resp := ask(h, step.r)
		body := bodyOf(t, resp)
		if resp.StatusCode != step.status || step.body != "*" && body != step.body {
			t.Errorf("step %d: %d %q", i, resp.StatusCode, body)
		}
		if got := number.ReplaceAllString(resp.Header.Get("Cache-Status"), "ttl=N"); got != step.cacheStatus {
			t.Errorf("step %d: Cache-Status %q, want %q", i, got, step.cacheStatus)
		}
		if got := resp.Header.Get("Content-Type"); step.ctype != "" && got != step.ctype {
			t.Errorf("step %d: content type %q, want %q", i, got, step.ctype)
		}
	}
	got := statuses(t, bodyOf(t, post(h, "get", `{"keys":["a/b","none","bad","much-too-long",""]}`)))
	if got != "200 404 key-not-found 502 loader-failed 400 invalid-key 200" {
		t.Errorf("batch: %s", got)
	}
	c.Close(t.Context())
	wantProblem(t, ask(h, request("GET", keys+"new", "")), 503, "draining")
}

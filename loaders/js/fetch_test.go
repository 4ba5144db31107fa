package js_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/loaders/js"
	"github.com/cocache/cocache/runtime/loader"
)

// fetching opens a script that may fetch from h, whose URL it finds in
// settings.url.
func fetching(t *testing.T, h http.HandlerFunc, body string) js.Loader {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	f, err := capability.NewFetcher(capability.FetchConfig{
		Origins: []string{srv.URL}, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, MaxRequests: 3, MaxBytes: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return open(t, js.Spec{
		Name: "a.js", Timeout: 20 * time.Second, Capabilities: capability.Set{Fetch: f, Settings: map[string]string{"url": srv.URL}},
		Source: []byte(`export async function load(key, ctx) { const {fetch, settings: {url}} = ctx; ` + body + ` }`),
	})
}

func reply(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("X-Two", "a")
	w.Header().Add("X-Two", "b")
	switch r.URL.Path {
	case "/json":
		_, _ = io.WriteString(w, `{"id":9007199254740993}`)
	case "/bad":
		_, _ = w.Write([]byte{0xff, 0x00})
	case "/none":
		w.WriteHeader(http.StatusNotFound)
	case "/long":
		_, _ = w.Write(make([]byte, 1001))
	case "/away":
		http.Redirect(w, r, "/json", http.StatusFound)
	default:
		b, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Method+" "+r.Header.Get("X-A")+" "+r.Header.Get("Content-Type")+" "+string(b))
	}
}

func TestFetch(t *testing.T) {
	tests := []struct{ body, want string }{
		{`return ctx.bytes(await (await fetch(url + "/json")).text())`, `{"id":9007199254740993}`},
		{`return (await fetch(url + "/json")).json()`, `{"id":9007199254740992}`},
		{`return (await fetch(url + "/away")).url === url + "/json"`, `true`}, {`return (await fetch(url + "/away", {redirect: "manual"})).status`, `302`},
		{`const r = await fetch(new URL("/none", url)); return [r.status, r.ok, await r.text()]`, `[404,false,""]`},
		{`const r = await fetch(url, {method: "POST", body: "é", headers: {"x-a": "1"}}); return [r.ok, await r.text()]`, `[true,"POST 1 text/plain;charset=UTF-8 é"]`},
		{`return (await fetch(url, {method: "PUT", body: new Uint8Array([65]), headers: [["X-A", "2"]]})).text()`, `"PUT 2  A"`},
		{`const h = (await fetch(url)).headers; return [h.get("x-two"), h.has("X-TWO"), h.get("no"), h.entries().find((e) => e[0] === "x-two")]`, `["a, b",true,null,["x-two","a, b"]]`},
		{`return Array.from(await (await fetch(url + "/bad")).bytes())`, `[255,0]`}, {`return (await (await fetch(url + "/bad")).arrayBuffer()).byteLength`, `2`},
		{`return (await fetch(url + "/bad")).text().catch((e) => e.message)`, `"the bytes are not UTF-8"`},
		{`const r = await fetch(url); await r.text(); return r.text().catch((e) => e.message)`, `"the body was read already"`},
		{`return fetch(url + "/long").catch((e) => e.message)`, `"the response is longer (loader.limits.max-http-bytes = 1000B)"`},
		{`return fetch("http://other.example/").catch((e) => e.message.includes("loader.allow.http"))`, `true`},
		{`fetch(url); fetch(url); return "left alone"`, `"left alone"`},
		{`const [a, b] = await Promise.all([fetch(url + "/json"), fetch(url + "/none")]); return [a.status, b.status]`, `[200,404]`},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			r, err := fetching(t, reply, tt.body).Load(t.Context(), loader.Request{})
			if err != nil || string(r.Value) != tt.want {
				t.Fatalf("value = %s, %v, want %s", r.Value, err, tt.want)
			}
		})
	}
}

func TestFetchFailures(t *testing.T) {
	tests := []struct {
		body string
		want loader.Error
	}{
		{`await fetch(url + "/long")`, loader.Error{Kind: loader.Limited, Limit: "loader.limits.max-http-bytes"}},
		{`for (let i = 0; i < 4; i++) await fetch(url)`, loader.Error{Kind: loader.Limited, Limit: "loader.limits.max-http-requests"}},
		{`try { for (let i = 0; i < 4; i++) await fetch(url) } catch (e) { throw e }`, loader.Error{Kind: loader.Limited, Limit: "loader.limits.max-http-requests"}},
		{`await fetch("https://other.example/")`, loader.Error{Message: "loader.allow.http"}}, {`await fetch("nonsense")`, loader.Error{Message: "bad request"}},
		{`await fetch(url, {headers: {host: "x"}})`, loader.Error{Message: "Host"}}, {`await fetch(url, {redirect: "x"})`, loader.Error{Message: "redirect is"}},
		{`await fetch(url, {body: {}})`, loader.Error{Message: "an object"}}, {`await fetch(url, 5)`, loader.Error{Message: "a number"}},
		{`await (await fetch(url)).json()`, loader.Error{Message: "SyntaxError"}},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			r, err := fetching(t, reply, tt.body).Load(t.Context(), loader.Request{})
			if e := failure(t, r, err); e.Kind != tt.want.Kind || e.Limit != tt.want.Limit || !strings.Contains(e.Message, tt.want.Message) {
				t.Fatalf("error = %#v, want %#v", e, tt.want)
			}
		})
	}
}

// TestFetchSideBySide: the server answers only once both requests are there.
func TestFetchSideBySide(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	l := fetching(t, func(http.ResponseWriter, *http.Request) {
		both.Done()
		both.Wait()
	}, `const all = await Promise.all([fetch(url), fetch(url)]); return all.length`)
	if r, err := l.Load(t.Context(), loader.Request{}); err != nil || string(r.Value) != "2" {
		t.Fatalf("value = %s, %v", r.Value, err)
	}
}

package capability

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/cocache/cocache/runtime/loader"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newFetcher(t *testing.T, c FetchConfig) *Fetcher {
	t.Helper()
	f, err := NewFetcher(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestOrigins(t *testing.T) {
	f := newFetcher(t, FetchConfig{Origins: []string{
		"https://api.example.com", "http://plain.example:8080", "https://*.wild.example", "http://127.0.0.1:1", "http://[::1]:80", "HTTPS://Upper.Example",
	}})
	tests := []struct {
		url  string
		want error
	}{
		{"https://api.example.com/x?y", nil}, {"https://API.example.com:443", nil}, {"http://plain.example:8080/", nil}, {"https://a.wild.example/", nil},
		{"http://127.0.0.1:1/", nil}, {"http://[0::1]/", nil}, {"https://upper.example/#f", nil},
		{"http://api.example.com/", ErrDenied}, {"https://api.example.com:444/", ErrDenied}, {"https://xapi.example.com/", ErrDenied}, {"https://wild.example/", ErrDenied},
		{"https://a.b.wild.example/", ErrDenied}, {"https://awild.example/", ErrDenied}, {"https://api.example.com./", ErrDenied}, {"https://evil.example/api.example.com", ErrDenied},
		{"http://plain.example/", ErrDenied}, {"https://*.wild.example/", ErrBadRequest}, {"https://api.example.com@evil.example/", ErrBadRequest}, {"https://u:p@api.example.com/", ErrBadRequest},
		{"ftp://api.example.com/", ErrBadRequest}, {"//api.example.com/", ErrBadRequest}, {"/x", ErrBadRequest}, {"", ErrBadRequest}, {"https:api.example.com", ErrBadRequest},
		{"https://api.example.com:0/", ErrBadRequest}, {"https://ap\u0131.example.com/", ErrBadRequest}, {"https://api.example.com\\@evil/", ErrBadRequest}, {"file:///etc/passwd", ErrBadRequest},
	}
	for _, tt := range tests {
		if _, _, err := f.allowed(tt.url); !errors.Is(err, tt.want) {
			t.Errorf("%s: error = %v, want %v", tt.url, err, tt.want)
		}
	}
	for _, bad := range []string{
		"api.example.com", "https://api.example.com/", "https://api.example.com/x", "https://*", "https://*.", "https://a.*.example", "https://*a.example", "https://*.*.example",
		"ftp://a.example", "https://", "https://u@a.example", "https://a.example?x", "https://a.example#x", "*", "https://*.0.0.1", "https://*.[::1]", "https://a.example:x", "https://日本.example", "",
	} {
		if _, err := NewFetcher(FetchConfig{Origins: []string{bad}}); err == nil || !strings.Contains(err.Error(), "loader.allow.http") {
			t.Errorf("%q: error = %v, want it refused", bad, err)
		}
	}
}

func TestJudge(t *testing.T) {
	refused := []string{
		"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "127.0.0.1", "127.255.0.1", "0.0.0.0", "0.1.2.3", "100.64.0.1", "198.18.0.1", "192.0.0.1", "192.0.2.1",
		"239.1.1.1", "240.0.0.1", "255.255.255.255", "::", "::1", "::ffff:10.0.0.1", "::10.0.0.1", "::8.8.8.8", "64:ff9b::a00:1", "64:ff9b:1::1", "2002:a00:1::", "2002:808:808::", "2001::1",
		"2001:db8::1", "fc00::1", "fd12::1", "ff0e::1", "fec0::1", "::ffff:0:10.0.0.1", "3fff::1", "100::1",
	}
	never := []string{
		"169.254.169.254", "169.254.0.1", "fe80::1", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
		"::169.254.169.254", "::ffff:0:169.254.169.254", "64:ff9b:1::a9fe:a9fe", "2001::5601:5601", "ff02::fb%eth0", "224.0.0.1", "ff02::1", "fe80::1%eth0",
	}
	public := []string{"8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"}

	none := newFetcher(t, FetchConfig{})
	all := newFetcher(t, FetchConfig{Networks: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}})
	check := func(f *Fetcher, addrs []string, denied bool, text string) {
		t.Helper()
		for _, a := range addrs {
			err := f.judge(netip.MustParseAddr(a))
			if errors.Is(err, ErrDenied) != denied || denied && !strings.Contains(err.Error(), text) {
				t.Errorf("%s: error = %v, want denied = %v", a, err, denied)
			}
		}
	}
	check(none, refused, true, "loader.allow.networks")
	check(none, never, true, "cannot be allowed")
	check(none, public, false, "")
	check(all, refused, false, "")
	check(all, never, true, "cannot be allowed")
	ten := newFetcher(t, FetchConfig{Networks: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}})
	check(ten, []string{"10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203", "2002:a01:203::1"}, false, "")
	check(ten, []string{"192.168.0.1", "::1", "64:ff9b::c0a8:1"}, true, "loader.allow.networks")
}

// target is a server that tests the fetcher against.
func target(t *testing.T, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func TestFetch(t *testing.T) {
	var seen *http.Request
	var body string
	srv := target(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		seen, body = r, string(b)
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "short and stout")
	})
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	f := newFetcher(t, FetchConfig{Origins: []string{srv.URL}, Networks: loopback, Secrets: map[string]FetchSecret{
		"key": {Value: "s3cret"}, "other": {Value: "x", Origins: []string{"https://other.example"}},
	}})
	b := f.Begin()
	r, err := b.Do(t.Context(), FetchRequest{
		Method: "post", URL: srv.URL + "/x#frag", Body: []byte("in"), Header: http.Header{"x-a": {"1"}, "Authorization": {"Bearer {{secret:key}}"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != 418 || string(r.Body) != "short and stout" || r.URL != srv.URL+"/x" {
		t.Errorf("response = %+v", r)
	}
	if seen.Method != "POST" || body != "in" || seen.Header.Get("X-A") != "1" || seen.Header.Get("Authorization") != "Bearer s3cret" {
		t.Errorf("request = %+v with %q", seen, body)
	}
	if _, err := b.Do(t.Context(), FetchRequest{URL: srv.URL}); err != nil || seen.Header.Get("Cookie") != "" || seen.ContentLength > 0 {
		t.Errorf("second request: %v, cookies %q", err, seen.Header.Get("Cookie"))
	}
	for name, want := range map[string]error{"{{secret:other}}": ErrDenied, "{{secret:none}}": ErrDenied, "a\nb": ErrBadRequest} {
		if _, err := b.Do(t.Context(), FetchRequest{URL: srv.URL, Header: http.Header{"X": {name}}}); !errors.Is(err, want) {
			t.Errorf("header %q: error = %v, want %v", name, err, want)
		}
	}
	for _, name := range []string{"host", "Connection", "transfer-encoding", "Content-Length", "proxy-authorization", "TE", "Upgrade", "keep-alive", "a b", ""} {
		if _, err := b.Do(t.Context(), FetchRequest{URL: srv.URL, Header: http.Header{name: {"x"}}}); !errors.Is(err, ErrBadRequest) {
			t.Errorf("header %q: error = %v, want ErrBadRequest", name, err)
		}
	}
	for _, m := range []string{"CONNECT", "trace", "A B", "é"} {
		if _, err := b.Do(t.Context(), FetchRequest{URL: srv.URL, Method: m}); !errors.Is(err, ErrBadRequest) {
			t.Errorf("method %q: error = %v, want ErrBadRequest", m, err)
		}
	}
}

func TestFetchDenied(t *testing.T) {
	srv := target(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was reached") })
	for name, f := range map[string]*Fetcher{
		"nil": nil, "zero": {}, "no origins": newFetcher(t, FetchConfig{Networks: loopback}), "no networks": newFetcher(t, FetchConfig{Origins: []string{srv.URL}}),
	} {
		_, err := f.Begin().Do(t.Context(), FetchRequest{URL: srv.URL})
		if !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "loader.allow.") {
			t.Errorf("%s: error = %v, want ErrDenied", name, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	port := srv.URL[strings.LastIndex(srv.URL, ":"):]
	f := newFetcher(t, FetchConfig{Origins: []string{"http://localhost" + port}})
	if _, err := f.Begin().Do(t.Context(), FetchRequest{URL: "http://localhost" + port}); !errors.Is(err, ErrDenied) {
		t.Errorf("by name: error = %v, want ErrDenied", err)
	}
}

func TestRedirects(t *testing.T) {
	var far *http.Request
	other := target(t, func(_ http.ResponseWriter, r *http.Request) { far = r })
	srv := target(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/far":
			http.Redirect(w, r, other.URL+"/there", http.StatusTemporaryRedirect)
		case "/denied":
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		case "/see":
			http.Redirect(w, r, "end?a#b", http.StatusSeeOther)
		case "/file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		default:
			b, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(w, r.Method+string(b))
		}
	})
	f := newFetcher(t, FetchConfig{Origins: []string{srv.URL, other.URL}, Networks: loopback, Secrets: map[string]FetchSecret{"k": {Value: "v"}}})
	do := func(path string, mode Redirect) (FetchResponse, error) {
		return f.Begin().Do(t.Context(), FetchRequest{Method: "POST", URL: srv.URL + path, Body: []byte("in"), Redirect: mode, Header: http.Header{
			"Authorization": {"a"}, "X-Key": {"{{secret:k}}"}, "X-Kept": {"1"},
		}})
	}
	if r, err := do("/see", Follow); err != nil || string(r.Body) != "GET" || r.URL != srv.URL+"/end?a" {
		t.Errorf("see other: %s %s, %v", r.Body, r.URL, err)
	}
	if _, err := do("/far", Follow); err != nil || far.Method != "POST" || far.Header.Get("Authorization")+far.Header.Get("X-Key") != "" || far.Header.Get("X-Kept") != "1" {
		t.Errorf("to another origin: %+v, %v", far, err)
	}
	if r, err := do("/far", Manual); err != nil || r.Status != http.StatusTemporaryRedirect || r.Header.Get("Location") == "" {
		t.Errorf("manual: %+v, %v", r, err)
	}
	if _, err := do("/far", Refuse); !errors.Is(err, errRedirect) {
		t.Errorf("refused: %v", err)
	}
	if _, err := do("/denied", Follow); !errors.Is(err, ErrDenied) {
		t.Errorf("to what is not allowed: %v", err)
	}
	if _, err := do("/file", Follow); !errors.Is(err, ErrBadRequest) {
		t.Errorf("to a file: %v", err)
	}
	if _, err := do("/loop", Follow); err == nil || !strings.Contains(err.Error(), "more than 10") {
		t.Errorf("loop: %v", err)
	}
}

func TestFetchLimits(t *testing.T) {
	srv := target(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 1<<20))
			_ = z.Close()
		case "/flush":
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, strings.Repeat("x", 1025))
		default:
			_, _ = io.WriteString(w, strings.Repeat("x", 1024))
		}
	})
	f := newFetcher(t, FetchConfig{Origins: []string{srv.URL}, Networks: loopback, MaxRequests: 3, MaxBytes: 1024})
	limited := func(err error, limit, value string) {
		t.Helper()
		var e *loader.Error
		if !errors.As(err, &e) || e.Kind != loader.Limited || e.Limit != limit || e.Value != value {
			t.Errorf("error = %#v, want %s = %s", err, limit, value)
		}
	}
	b := f.Begin()
	if r, err := b.Do(t.Context(), FetchRequest{URL: srv.URL}); err != nil || len(r.Body) != 1024 {
		t.Errorf("%d bytes, %v", len(r.Body), err)
	}
	for _, path := range []string{"/gzip", "/flush"} {
		_, err := b.Do(t.Context(), FetchRequest{URL: srv.URL + path})
		limited(err, "loader.limits.max-http-bytes", "1KiB")
	}
	_, err := b.Do(t.Context(), FetchRequest{URL: srv.URL})
	limited(err, "loader.limits.max-http-requests", "3")
	if _, err := f.Begin().Do(t.Context(), FetchRequest{URL: srv.URL}); err != nil {
		t.Errorf("the next load: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Begin().Do(ctx, FetchRequest{URL: srv.URL}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

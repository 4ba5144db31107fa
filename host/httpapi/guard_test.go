package httpapi_test

import (
	"testing"

	"github.com/cocache/cocache/host/httpapi"
	"github.com/cocache/cocache/runtime/policy"
)

func TestCrossSite(t *testing.T) {
	for _, c := range []struct {
		header string
		ok     bool
	}{
		{"", true},
		{"Sec-Fetch-Site: same-origin", true},
		{"Sec-Fetch-Site: none", true},
		{"Sec-Fetch-Site: same-site", false},
		{"Sec-Fetch-Site: cross-site", false},
		{"Sec-Fetch-Site: ", false},
		{"Origin: http://example.com", true}, // httptest's Host
		{"Origin: https://EXAMPLE.com", true},
		{"Origin: http://example.com:81", false},
		{"Origin: http://evil.test", false},
		{"Origin: null", false},
		{"Origin: ", false},
		{"Origin: example.com", false},
	} {
		for _, method := range []string{"GET", "DELETE"} {
			f := &fake{}
			resp := ask(handler(f, policy.JSON), request(method, key, "", c.header))
			if refused := resp.StatusCode == 403; refused == c.ok {
				t.Errorf("%s %q: %d", method, c.header, resp.StatusCode)
			}
			if !c.ok {
				wantProblem(t, resp, 403, "cross-origin")
				if len(f.calls)+len(f.gone) > 0 {
					t.Errorf("%s %q reached the cache", method, c.header)
				}
			}
		}
	}
}

func TestHost(t *testing.T) {
	h := handler(&fake{}, policy.JSON, func(o *httpapi.Options) { o.Loopback, o.Hosts = true, []string{"Cache.Internal", "pinned:99"} })
	for host, ok := range map[string]bool{
		"localhost": true, "LOCALHOST:8080": true, "127.0.0.1": true, "127.9.9.9:80": true, "[::1]:8080": true, "[::1]": true,
		"[::ffff:127.0.0.1]:1": true, "cache.internal": true, "cache.internal:8080": true, "pinned:99": true, "": true,
		"pinned": false, "pinned:98": false, "evil.test": false, "evil.test:8080": false, "localhost.evil.test": false, "10.0.0.1": false,
		"127.0.0.1.evil.test": false, "[::2]:80": false, "0.0.0.0": false, "2130706433": false,
	} {
		r := request("GET", key, "")
		r.Host = host
		resp := ask(h, r)
		if refused := resp.StatusCode == 421; refused == ok {
			t.Errorf("%q: %d", host, resp.StatusCode)
		}
		if !ok {
			wantProblem(t, resp, 421, "misdirected-host")
		}
	}
}

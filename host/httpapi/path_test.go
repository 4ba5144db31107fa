package httpapi

import (
	"net/url"
	"testing"
)

// paths that name the same key: one part, percent-encoded, and base64url.
func pathsOf(name, key string) []string {
	below := "/v1/namespaces/" + url.PathEscape(name) + "/"
	b64 := encodeB64(key)
	if key == "" {
		b64 = "="
	}
	paths := []string{below + "keys-b64/" + b64}
	if !isUnclean(key) {
		paths = append(paths, below+"keys/"+url.PathEscape(key))
	}
	return paths
}

func TestKeysAreBytes(t *testing.T) {
	for _, key := range []string{"", ".", "..", "a/b", "a%2Fb", "a//b", "../x", "a/./b", "/a", "a/", "a b", "a+b", "a?b#c", "ключ",
		"\x00\xff\x80", "%", "%zz", "=", "a|b", "{t}", "get", "*", "a\\b"} {
		for _, path := range pathsOf("n", key) {
			got, refused := locate(path)
			if refused != nil || got != (target{singleKey, "n", key}) {
				t.Errorf("%s: got %+v, %+v, want key %q", path, got, refused, key)
			}
		}
	}
}

func TestLocate(t *testing.T) {
	const ns = "/v1/namespaces"
	for _, c := range []struct {
		path string
		want target
		code string // of the problem
	}{
		{"/v1/namespaces", target{resource: listing}, ""},
		{ns + "/n", target{resource: namespace, namespace: "n"}, ""},
		{ns + "/a%2Fb", target{resource: namespace, namespace: "a/b"}, ""},
		{ns + "/n/batch/get", target{resource: batchGet, namespace: "n"}, ""},
		{ns + "/n/batch/put", target{resource: batchPut, namespace: "n"}, ""},
		{ns + "/n/batch/invalidate", target{resource: batchInvalidate, namespace: "n"}, ""},
		{ns + "/n/keys/%252F", target{singleKey, "n", "%2F"}, ""},
		{ns + "/n/keys/a%2fb%2Fc", target{singleKey, "n", "a/b/c"}, ""},
		{ns + "/n/%6Beys/a", target{singleKey, "n", "a"}, ""},
		{ns + "/n/keys/...", target{singleKey, "n", "..."}, ""},
		{ns + "/n/keys-b64/%3D", target{singleKey, "n", ""}, ""},
		{"/livez", target{resource: probe}, ""},
		{"/", target{}, ""},
		{"/v2/namespaces", target{}, ""},
		{ns + "/n/keys", target{namespace: ""}, ""},
		{ns + "/n/batch/drop", target{namespace: "n"}, ""},
		{ns + "/n/keys/a/evict", target{}, ""},
		{ns + "/n/keys/a/b", target{}, ""},

		{"", target{}, "invalid-request"},
		{"*", target{}, "invalid-request"},
		{"//v1/namespaces", target{}, "invalid-request"},
		{ns + "/", target{}, "invalid-request"},
		{ns + "/n/", target{}, "invalid-request"},
		{ns + "//keys/a", target{}, "invalid-request"},
		{ns + "/../keys/a", target{}, "invalid-request"},
		{ns + "/n/keys//a", target{}, "invalid-request"},
		{ns + "/n/keys/a/", target{}, "invalid-request"},
		{ns + "/n/keys/./a", target{}, "invalid-request"},
		{ns + "/n/keys/../a", target{}, "invalid-request"},
		{ns + "/n/keys/%2e%2E/a", target{}, "invalid-request"},
		{ns + "/n/batch/", target{}, "invalid-request"},
		{ns + "/n/keys/%zz", target{}, "invalid-request"},
		{ns + "/n/keys/%", target{}, "invalid-request"},
		{ns + "/n/keys/%4", target{}, "invalid-request"},

		{ns + "/n/keys/", target{}, "invalid-key"},
		{ns + "/n/keys/.", target{}, "invalid-key"},
		{ns + "/n/keys/..", target{}, "invalid-key"},
		{ns + "/n/keys/%2E", target{}, "invalid-key"},
		{ns + "/n/keys/.%2e", target{}, "invalid-key"},
		{ns + "/n/keys-b64/", target{}, "invalid-key"},
		{ns + "/n/keys-b64/==", target{}, "invalid-key"},
		{ns + "/n/keys-b64/YQ==", target{}, "invalid-key"}, // padded
		{ns + "/n/keys-b64/YR", target{}, "invalid-key"},   // stray last bits
		{ns + "/n/keys-b64/Y%0AQ", target{}, "invalid-key"},
		{ns + "/n/keys-b64/a+b_", target{}, "invalid-key"}, // the other alphabet
	} {
		got, refused := locate(c.path)
		code := ""
		if refused != nil {
			code = refused.code
			if refused.status != 400 {
				t.Errorf("%s: status %d", c.path, refused.status)
			}
		}
		if code != c.code || got != c.want {
			t.Errorf("%s: got %+v %s, want %+v %s", c.path, got, code, c.want, c.code)
		}
	}
}

// A byte that should have been escaped must not change what stands beside it.
func TestRawPathKeepsEscapes(t *testing.T) {
	for _, path := range []string{"/v1/namespaces/n/keys/a%2Fb|c", "/v1/namespaces/n/keys/a%2Fb\xffc", "/v1/namespaces/n/keys/a%2Fb"} {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := rawPath(u); got != path {
			t.Errorf("got %q, want %q", got, path)
		}
	}
}

// FuzzLocate: a path that is understood names what its own tidy form names, and
// a key that is written into a path comes out of it.
func FuzzLocate(f *testing.F) {
	for _, seed := range []string{"/v1/namespaces/n/keys/a%2Fb", "/v1/namespaces/n/keys-b64/AP8Q", "/v1/namespaces/n/keys-b64/=",
		"/v1/namespaces/n/keys/%2E%2e", "/v1//namespaces", "/livez", "a b+c%", "..", "", "\xff\x00|"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, path := range pathsOf("n", text) { // as a key
			if got, refused := locate(path); refused != nil || got != (target{singleKey, "n", text}) {
				t.Fatalf("key %q by %s: got %+v, %+v", text, path, got, refused)
			}
		}
		got, refused := locate(text) // as a path
		if refused != nil || got.resource != singleKey {
			return
		}
		for _, path := range pathsOf(got.namespace, got.key) {
			if again, refused := locate(path); refused != nil || again != got {
				t.Fatalf("%q names %+v, %s names %+v, %+v", text, got, path, again, refused)
			}
		}
	})
}

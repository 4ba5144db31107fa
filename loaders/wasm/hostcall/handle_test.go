package hostcall

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/sdk/abi"
)

// reader is another namespace.
type reader struct{}

func (reader) Read(_ context.Context, namespace, key string) (capability.Read, bool, error) {
	if namespace != "users" {
		return capability.Read{}, false, capability.ErrDenied
	}
	return capability.Read{Value: "value of " + key, TTL: time.Minute, Version: 7}, key != "none", nil
}

func TestGet(t *testing.T) {
	set := capability.Set{Log: slog.New(slog.DiscardHandler)}
	set.Namespaces = reader{}
	_, c := NewHost(set, time.Minute).Begin(t.Context())
	defer c.End()
	mem := guest(t).Memory()
	get := func(namespace, key string) int32 {
		mem.WriteString(0, namespace)
		mem.WriteString(100, key)
		return hostGet(c, mem, []uint32{0, uint32(len(namespace)), 100, uint32(len(key))})
	}
	if n := get("orders", "a"); n != abi.ErrDenied {
		t.Errorf("another namespace: %d", n)
	}
	if n := get("users", "none"); n != abi.ErrNotFound {
		t.Errorf("an absent key: %d", n)
	}
	h := uint32(get("users", "a"))
	if n := hostInfo(c, mem, []uint32{h, 200, 5}); n != int32(len("ttl: 1m0s\nversion: 7\n")) {
		t.Errorf("info that does not fit: %d", n)
	}
	n := hostInfo(c, mem, []uint32{h, 200, 100})
	if b, _ := mem.Read(200, uint32(n)); string(b) != "ttl: 1m0s\nversion: 7\n" {
		t.Errorf("info %q", b)
	}
	var got []byte
	for n := hostRead(c, mem, []uint32{h, 300, 4}); n > 0; n = hostRead(c, mem, []uint32{h, 300, 4}) {
		b, _ := mem.Read(300, uint32(n))
		got = append(got, b...)
	}
	if string(got) != "value of a" {
		t.Errorf("read %q", got)
	}
	if hostClose(c, mem, []uint32{h}) != 0 || hostClose(c, mem, []uint32{h}) != abi.ErrBadArgument {
		t.Error("a handle is not closed once")
	}
	for range maxHandles {
		get("users", "a")
	}
	if n := get("users", "a"); n != abi.ErrLimit {
		t.Errorf("one handle too many: %d", n)
	}
}

func TestParseFetch(t *testing.T) {
	r, ok := parseFetch("POST https://e.example/x y\nA: 1\nA:2\n\nbody\n\nmore")
	if !ok || r.Method != "POST" || r.URL != "https://e.example/x y" || string(r.Body) != "body\n\nmore" ||
		!slices.Equal(r.Header["A"], []string{"1", "2"}) {
		t.Errorf("got %+v, %v", r, ok)
	}
	for _, bad := range []string{"", "GET", "GET https://e\n", "GET\n\n", "GET https://e\nnothing\n\n", "GET https://e\n: x\n\n"} {
		if _, ok := parseFetch(bad); ok {
			t.Errorf("%q is taken", bad)
		}
	}
}

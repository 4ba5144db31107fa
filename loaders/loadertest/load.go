package loadertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cocache/cocache/runtime/loader"
)

func testAnswers(t *testing.T, open Opener) {
	l := open(t, options(t))
	value := func(s string) loader.Result { return loader.Result{Value: []byte(s)} }
	tests := []struct {
		key  string
		want loader.Result
	}{
		{"echo/hello", value("hello")},
		{"echo/", value("")},
		{"empty", value("")},
		{"absent", loader.Result{Status: loader.Absent}},
		{"absent-ttl", loader.Result{Status: loader.Absent, TTL: 7 * time.Second}},
		{"ttl", loader.Result{Value: []byte("x"), TTL: 5 * time.Minute}},
		{"setting/table", value("users")},
		{"setting/empty", value("")},
		{"setting/none", loader.Result{Status: loader.Absent}},
		{"sleep/5", value("slept")},
	}
	for _, tt := range tests {
		t.Run(tt.key, func(t *testing.T) {
			equal(t, must(t, l, loader.Request{Key: tt.key}), tt.want)
		})
	}
	t.Run("ttl-forever", func(t *testing.T) {
		if r := must(t, l, loader.Request{Key: "ttl-forever"}); r.TTL != loader.Forever {
			t.Fatalf("ttl = %v, want forever", r.TTL)
		}
	})
	t.Run("version", func(t *testing.T) {
		if r := must(t, l, loader.Request{Key: "version"}); r.Version != math.MaxUint64 {
			t.Fatalf("version = %d, want %d", r.Version, uint64(math.MaxUint64))
		}
	})
	t.Run("no-store", func(t *testing.T) {
		if r := must(t, l, loader.Request{Key: "no-store"}); !r.NoStore {
			t.Fatal("the value may be stored")
		}
	})
}

func testBytes(t *testing.T, open Opener) {
	l := open(t, options(t))
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, b := range []string{string(all), "\x00", "\xff\xfe", "\xc3\x28", "\xed\xa0\x80", "日本\u2028", "a/b", "%41", "\r\n"} {
		t.Run(fmt.Sprintf("%.16q", b), func(t *testing.T) {
			equal(t, must(t, l, loader.Request{Key: "echo/" + b}), loader.Result{Value: []byte(b)})
		})
	}
}

func testFailures(t *testing.T, open Opener) {
	l := open(t, options(t))
	tests := []struct {
		key     string
		want    loader.Error
		message string
	}{
		{"retry", loader.Error{Kind: loader.Retry, After: 3 * time.Second}, "try later"},
		{"error", loader.Error{Kind: loader.Failed, Code: "E_LUCK"}, "no such luck"},
		{"ttl-zero", loader.Error{Kind: loader.Failed}, ""},
		{"crash", loader.Error{Kind: loader.Failed}, ""},
		{"nonsense", loader.Error{Kind: loader.Failed}, ""},
		{"such a key does not exist", loader.Error{Kind: loader.Failed}, ""},
		{"", loader.Error{Kind: loader.Failed}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.key, func(t *testing.T) {
			e := mustFail(t, l, loader.Request{Key: tt.key})
			if e.Kind != tt.want.Kind || e.Code != tt.want.Code || e.After != tt.want.After {
				t.Fatalf("error = %#v, want %#v", e, tt.want)
			}
			if e.Message == "" || !strings.Contains(e.Message, tt.message) {
				t.Fatalf("message = %q, want one with %q", e.Message, tt.message)
			}
			if e.Message != loader.Clean(e.Message) {
				t.Fatalf("message = %q, which is not clean", e.Message)
			}
			works(t, l)
		})
	}
}

func testRequest(t *testing.T, open Opener) {
	l := open(t, options(t))
	tests := []struct {
		req  loader.Request
		want string
	}{
		{loader.Request{Key: "background"}, "false"},
		{loader.Request{Key: "background", Background: true}, "true"},
		{loader.Request{Key: "previous"}, "0"},
		{loader.Request{Key: "previous", PreviousVersion: 9007199254740993}, "9007199254740993"},
		{loader.Request{Key: "previous", PreviousVersion: math.MaxUint64}, "18446744073709551615"},
	}
	for _, tt := range tests {
		t.Run(tt.req.Key+"="+tt.want, func(t *testing.T) {
			equal(t, must(t, l, tt.req), loader.Result{Value: []byte(tt.want)})
		})
	}
}

func testOutputLimit(t *testing.T, open Opener) {
	o := options(t)
	o.MaxOutput = 8 * mebi
	o.Timeout = 60 * time.Second
	l := open(t, o)
	r := must(t, l, loader.Request{Key: fmt.Sprintf("size/%d", 8*mebi)})
	if !bytes.Equal(r.Value, pattern(8*mebi)) {
		t.Fatalf("the value of %d bytes arrived as %d other ones", 8*mebi, len(r.Value))
	}
	e := mustFail(t, l, loader.Request{Key: fmt.Sprintf("size/%d", 8*mebi+1)})
	if e.Kind != loader.Limited || e.Limit != "loader.limits.max-output-bytes" {
		t.Fatalf("error = %v, want max-output-bytes to be the limit", e)
	}
	works(t, l)
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i % 251)
	}
	return b
}

// load is one Load with the time it may take, so that an engine that hangs
// fails its test instead of the whole binary.
func load(t *testing.T, l loader.Loader, req loader.Request) (loader.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	return l.Load(ctx, req)
}

func must(t *testing.T, l loader.Loader, req loader.Request) loader.Result {
	t.Helper()
	r, err := load(t, l, req)
	if err != nil {
		t.Fatalf("load %.64q: %v", req.Key, err)
	}
	return r
}

func mustFail(t *testing.T, l loader.Loader, req loader.Request) *loader.Error {
	t.Helper()
	r, err := load(t, l, req)
	return asError(t, req.Key, r, err)
}

func asError(t *testing.T, key string, r loader.Result, err error) *loader.Error {
	t.Helper()
	if err == nil {
		t.Fatalf("load %.64q: answered status %d and %d bytes, want an error", key, r.Status, len(r.Value))
	}
	var e *loader.Error
	if !errors.As(err, &e) {
		t.Fatalf("load %.64q: error is a %T (%v), want a *loader.Error", key, err, err)
	}
	return e
}

func equal(t *testing.T, got, want loader.Result) {
	t.Helper()
	if got.Status != want.Status || !bytes.Equal(got.Value, want.Value) || got.TTL != want.TTL ||
		got.Version != want.Version || got.NoStore != want.NoStore || got.ContentType != want.ContentType {
		t.Fatalf("result = %+v, want %+v", got, want)
	}
}

// works checks that an engine has survived what was done to it.
func works(t *testing.T, l loader.Loader) {
	t.Helper()
	equal(t, must(t, l, loader.Request{Key: "echo/still here"}), loader.Result{Value: []byte("still here")})
}

package js_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cocache/cocache/loaders/js"
	"github.com/cocache/cocache/runtime/loader"
)

// load opens a script whose load is the given body and calls it once.
func load(t *testing.T, codec, body string) (loader.Result, error) {
	t.Helper()
	return open(t, js.Spec{Name: "users.ts", Codec: codec, Timeout: 20 * time.Second, Source: []byte(
		"export default { async load(key: string, ctx: any) { " + body + " } }")}).Load(t.Context(), loader.Request{Key: "k"})
}

func failure(t *testing.T, r loader.Result, err error) *loader.Error {
	t.Helper()
	var e *loader.Error
	if !errors.As(err, &e) {
		t.Fatalf("answered %+v with error %v (%T), want a *loader.Error", r, err, err)
	}
	if e.Message == "" && e.Kind != loader.Retry || e.Message != loader.Clean(e.Message) {
		t.Fatalf("the message %q is empty or not clean", e.Message)
	}
	return e
}

func TestEncode(t *testing.T) {
	tests := []struct {
		codec, value string
		want         string // hex: for msgpack
	}{
		{"json", `"a\u00e9\u2028<&>\n\u0001\""`, "\"aé\u2028<&>\\n\\u0001\\\"\""},
		{"json", `"\ud83d\ude00"`, `"😀"`},
		{"json", `"\ufffd"`, "\"\ufffd\""},
		{"json", `""`, `""`},
		{"json", `false`, `false`}, {"json", `0`, `0`}, {"json", `-0`, `0`}, {"json", `1e21`, `1e+21`}, {"json", `0.1`, `0.1`},
		{"json", `[]`, `[]`}, {"json", `{}`, `{}`}, {"json", `[null, [true]]`, `[null,[true]]`},
		{"json", `({b: 1, a: {c: "x"}, 2: 0})`, `{"2":0,"b":1,"a":{"c":"x"}}`},
		{"json", `Object.assign(Object.create(null), {a: 1})`, `{"a":1}`},
		{"json", `({id: 12345678901234567890n})`, `{"id":12345678901234567890}`},
		{"json", `({id: -(2n ** 70n)})`, `{"id":-1180591620717411303424}`},
		{"json", `new Date(0)`, `"1970-01-01T00:00:00.000Z"`},
		{"json", `({get a() { return 7 }})`, `{"a":7}`},
		{"json", `({"a b": 1, "\ufffd": 2, "": 3})`, "{\"a b\":1,\"\ufffd\":2,\"\":3}"},
		{"json", `({"__proto__x": 1, constructor: 2})`, `{"__proto__x":1,"constructor":2}`},
		{"json", `JSON.parse('{"__proto__": 1}')`, `{"__proto__":1}`},
		{"json", `ctx.value(null)`, `null`},
		{"json", `(() => { const a = {x: 1}; return [a, a] })()`, `[{"x":1},{"x":1}]`},
		{"json", `Promise.resolve({a: 1})`, `{"a":1}`},
		{"json", `({then: 1})`, `{"then":1}`},
		{"string", `"é"`, "é"}, {"string", `""`, ""},
		{"raw", `"é"`, "é"}, {"raw", `new Uint8Array([0, 255])`, "\x00\xff"}, {"raw", `new Uint8Array([1, 2, 3, 4]).buffer`, "\x01\x02\x03\x04"},
		{"raw", `new Uint8Array([1, 2, 3, 4]).subarray(1, 3)`, "\x02\x03"}, {"raw", `new Uint8Array(0)`, ""},
		{"msgpack", `"é"`, "a2c3a9"}, {"msgpack", `true`, "c3"}, {"msgpack", `7`, "07"}, {"msgpack", `-1`, "ff"},
		{"msgpack", `0.5`, "cb3fe0000000000000"}, {"msgpack", `9007199254740991`, "cf001fffffffffffff"},
		{"msgpack", `1e300`, "cb7e37e43c8800759c"},
		{"msgpack", `18446744073709551615n`, "cfffffffffffffffff"}, {"msgpack", `-9223372036854775808n`, "d38000000000000000"},
		{"msgpack", `[1, {a: null}]`, "920181a161c0"}, {"msgpack", `ctx.value(null)`, "c0"},
		{"msgpack", `new Uint8Array([1, 2])`, "c4020102"}, {"msgpack", `new Date(1000)`, "d6ff00000001"},
	}
	for _, tt := range tests {
		t.Run(tt.codec+" "+tt.value, func(t *testing.T) {
			r, err := load(t, tt.codec, "return "+tt.value)
			if err != nil {
				t.Fatal(err)
			}
			got := string(r.Value)
			if tt.codec == "msgpack" {
				got = hex.EncodeToString(r.Value)
			}
			if got != tt.want || r.Status != loader.Value {
				t.Fatalf("value = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	everywhere := []struct{ value, message string }{
		{`undefined`, "undefined"}, {`() => 1`, "a function"}, {`async () => 1`, "a function"}, {`class {}`, "a function"},
		{`Symbol("x")`, "a Symbol"}, {`NaN`, "NaN"}, {`-Infinity`, "Infinity"}, {`new Map([[1, 2]])`, "a Map"}, {`new Set([1])`, "a Set"},
		{`new (class A { x = 1 })`, "an object of a class"}, {`/x/`, "a RegExp"}, {`new Error("x")`, "an Error"}, {`new String("x")`, "a String"},
		{`new Proxy({}, {})`, "a Proxy"}, {`new Float64Array(1)`, "an object of a class"}, {`new URL("http://a/")`, "an object of a class"},
		{`[new Promise(() => {})]`, "Promise"}, {`"\ud800"`, "surrogate"}, {`"a\udc00b"`, "surrogate"}, {`[ctx.value("a")]`, "an object of a class"},
	}
	for _, codec := range []string{"json", "string", "msgpack", "raw"} {
		for _, tt := range everywhere {
			if codec != "json" && codec != "msgpack" && strings.HasPrefix(tt.value, "[") {
				continue
			}
			t.Run(codec+" "+tt.value, func(t *testing.T) {
				r, err := load(t, codec, "return "+tt.value)
				e := failure(t, r, err)
				want := tt.message
				if codec == "string" || codec == "raw" {
					if want == "NaN" || want == "Infinity" {
						want = "a number"
					}
				}
				if e.Kind != loader.Failed || !strings.Contains(e.Message, want) {
					t.Fatalf("error = %v, want one with %q", e, want)
				}
			})
		}
	}
	tests := []struct{ codec, value, message string }{
		{"json", `({items: [1, 2, 3, {price: NaN}]})`, ".items[3].price: NaN"},
		{"json", `({"a b": {"": undefined}})`, `["a b"][""]: undefined`},
		{"json", `[1, , 3]`, "[1]: undefined"},
		{"json", `({a: () => 1})`, ".a: a function"},
		{"json", `({"\ud800": 1})`, "surrogate"},
		{"json", `new Uint8Array(1)`, "ctx.bytes"}, {"json", `({b: new ArrayBuffer(1)})`, ".b: bytes"},
		{"json", `new Date(NaN)`, "an invalid Date"},
		{"json", `(() => { const a: any = {b: []}; a.b.push(a); return a })()`, ".b[0]: a cycle"},
		{"json", `(() => { let a: any = 1; for (let i = 0; i < 257; i++) a = [a]; return a })()`, "nested deeper than 256"},
		{"json", `({get a() { throw new Error("from the getter") }})`, "from the getter"},
		{"msgpack", `2n ** 64n`, "64 bits"}, {"msgpack", `({a: -(2n ** 63n) - 1n})`, ".a: a bigint beyond 64 bits"},
		{"string", `true`, "a boolean"}, {"string", `1`, "a number"}, {"string", `[]`, "an Array"}, {"string", `({})`, "an object"}, {"string", `1n`, "a bigint"},
		{"string", `new Uint8Array(1)`, "bytes"}, {"string", `new Date(0)`, "a Date"}, {"string", `ctx.value(null)`, "null"},
		{"raw", `1`, "a number"}, {"raw", `1n`, "a bigint"}, {"raw", `new Date(0)`, "a Date"}, {"raw", `({})`, "an object"},
		{"json", `ctx.bytes("{")`, "JSON"}, {"json", `ctx.bytes("1 2")`, "JSON"}, {"json", `ctx.bytes("")`, "JSON"},
		{"json", `ctx.bytes(new Uint8Array([0x22, 0xff, 0x22]))`, "UTF-8"}, {"json", `ctx.bytes({})`, "an object"}, {"string", `ctx.bytes("\ud800")`, "surrogate"},
		{"string", `ctx.bytes(new Uint8Array([0xff]))`, "UTF-8"}, {"msgpack", `ctx.bytes("")`, "cut short"},
		{"msgpack", `ctx.bytes(new Uint8Array([0xc1]))`, "0xc1"}, {"msgpack", `ctx.bytes(new Uint8Array([1, 2]))`, "follow"},
		{"msgpack", `ctx.bytes(new Uint8Array([0xdd, 255, 255, 255, 255]))`, "cut short"},
		{"msgpack", `ctx.bytes(new Uint8Array(100000).fill(0x91))`, "cut short"},
	}
	for _, tt := range tests {
		t.Run(tt.codec+" "+tt.value, func(t *testing.T) {
			r, err := load(t, tt.codec, "return "+tt.value)
			if e := failure(t, r, err); e.Kind != loader.Failed || !strings.Contains(e.Message, tt.message) {
				t.Fatalf("error = %v, want one with %q", e, tt.message)
			}
		})
	}
}

func TestBytesAreKept(t *testing.T) {
	text := `{"id":9007199254740993,"n":12345678901234567890,"p":1.10, "e":1e400,"h":"<a>&</a>","k":1,"k":2}`
	for _, codec := range []string{"json", "string", "raw"} {
		r, err := load(t, codec, "return ctx.bytes('"+text+"')")
		if err != nil || string(r.Value) != text {
			t.Errorf("%s: value = %s, %v", codec, r.Value, err)
		}
	}
	r, err := load(t, "msgpack", "return ctx.bytes(new Uint8Array([0x82, 0xa1, 0x61, 0xcd, 0, 1, 0xa1, 0x61, 0xd4, 1, 0]))")
	if err != nil || hex.EncodeToString(r.Value) != "82a161cd0001a161d40100" {
		t.Errorf("msgpack: value = %x, %v", r.Value, err)
	}
}

func TestStored(t *testing.T) {
	day := 24 * time.Hour
	tests := []struct {
		codec, body string
		want        loader.Result
	}{
		{"json", `ctx.value(1, {ttl: "1d2h3m4s5ms"})`, loader.Result{Value: []byte("1"), TTL: day + 2*time.Hour + 3*time.Minute + 4*time.Second + 5*time.Millisecond}},
		{"json", `ctx.value(1, {ttl: "forever", version: 3})`, loader.Result{Value: []byte("1"), TTL: loader.Forever, Version: 3}},
		{"json", `ctx.value(1, {version: "18446744073709551615"})`, loader.Result{Value: []byte("1"), Version: 1<<64 - 1}},
		{"json", `ctx.value(1, {ttl: undefined, version: undefined, more: 1})`, loader.Result{Value: []byte("1")}},
		{"json", `ctx.bytes("1", {contentType: "application/json", noStore: true})`, loader.Result{Value: []byte("1"), NoStore: true}},
		{"raw", `ctx.value("x", {contentType: "image/png"})`, loader.Result{Value: []byte("x"), ContentType: "image/png"}},
		{"json", `ctx.absent({ttl: "1s", version: 9n})`, loader.Result{Status: loader.Absent, TTL: time.Second, Version: 9}},
		{"json", `ctx.absent()`, loader.Result{Status: loader.Absent}},
		{"json", `null`, loader.Result{Status: loader.Absent}},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			r, err := load(t, tt.codec, "return "+tt.body)
			if err != nil {
				t.Fatal(err)
			}
			if string(r.Value) != string(tt.want.Value) || r.Status != tt.want.Status || r.TTL != tt.want.TTL ||
				r.Version != tt.want.Version || r.ContentType != tt.want.ContentType || r.NoStore != tt.want.NoStore {
				t.Fatalf("result = %+v, want %+v", r, tt.want)
			}
		})
	}
	for _, bad := range []string{
		`{ttl: "0"}`, `{ttl: "0s"}`, `{ttl: "-1s"}`, `{ttl: ""}`, `{ttl: "5"}`, `{ttl: "5 m"}`, `{ttl: "1.5s"}`, `{ttl: "5x"}`, `{ttl: 5}`, `{ttl: null}`,
		`{ttl: "99999999999d"}`, `{ttl: "106751d24h"}`, `{ttl: "Forever"}`, `{version: -1}`, `{version: 1.5}`, `{version: 2 ** 53}`, `{version: "x"}`, `{version: ""}`,
		`{version: 18446744073709551616n}`, `{version: -1n}`, `{version: null}`, `{contentType: "text/html"}`, `5`, `null`,
	} {
		t.Run(bad, func(t *testing.T) {
			r, err := load(t, "json", "return ctx.value(1, "+bad+")")
			if e := failure(t, r, err); e.Kind != loader.Failed {
				t.Fatalf("error = %v, want failed", e)
			}
		})
	}
}

func TestOutputLimit(t *testing.T) {
	for _, tt := range []struct{ codec, body string }{
		{"json", `return "x".repeat(99)`}, {"json", `return Array(100).fill(1)`}, {"json", `return ctx.bytes(" ".repeat(100) + "1")`},
		{"string", `return "x".repeat(101)`}, {"raw", `return new Uint8Array(101)`}, {"msgpack", `return ctx.value(new Uint8Array(99))`},
		{"json", `return "é".repeat(50)`}, {"json", `return Array(1e4).fill(1)`},
	} {
		l := open(t, js.Spec{Name: "a.js", Codec: tt.codec, MaxOutput: 100, Source: []byte("function load(key, ctx) {" + tt.body + "}")})
		r, err := l.Load(t.Context(), loader.Request{})
		if e := failure(t, r, err); e.Kind != loader.Limited || e.Limit != "loader.limits.max-output-bytes" || e.Value != "100B" {
			t.Errorf("%s: error = %v, want max-output-bytes = 100B", tt.body, e)
		}
	}
	l := open(t, js.Spec{Name: "a.js", MaxOutput: 100, Source: []byte(`function load() { return "x".repeat(98) }`)})
	if r, err := l.Load(t.Context(), loader.Request{}); err != nil || len(r.Value) != 100 {
		t.Errorf("100 bytes: %d, %v", len(r.Value), err)
	}
}

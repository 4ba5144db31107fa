package js_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/loaders/js"
	"github.com/cocache/cocache/loaders/js/guest"
	"github.com/cocache/cocache/runtime/loader"
)

func TestCompileErrors(t *testing.T) {
	tests := []struct{ name, source, want string }{
		{"a.ts", "\n  let = ;", "a.ts:2:"}, {"a.js", "let a: number = 1", "a.js:1:6: "},
		{"a.ts", "import x from 'x'\nexport function load() { return x }", `a.ts:1:15: import "x": a loader is one file; bundle it`},
		{"a.ts", "export function load() {\n return import('x') }", `a.ts:2:16: import "x": a loader is one file; bundle it`},
		{"a.ts", "export * from './y'", `import "./y"`},
		{"a.mjs", "await 1; export function load() {}", "a.mjs:1:1: top-level await"},
		{"a.js", "function load() {\n  return /\\p{L}/u }", `a.js:2:10: \p{…}`}, {"a.js", "x = new RegExp('\\\\p{L}', 'u')", `\p{…}`},
		{"a.js", "x = { y: [z => class { m() { return /a\\P{L}/u } }] }", `\p{…}`},
		{"a.js", "export const a = 1", "no load"}, {"a.js", "", "no load"}, {"a.js", "export default {}", "no load"},
		{"a.js", "export const keys = 'text', load = () => 1", `"bytes"`}, {"a.js", "throw new Error('at the top')", "at the top"},
		{"a.py", "x", ".py"}, {"a.js", "export function load() {", "a.js:1:25: "}, {"a.js", "}); evil(); (function () {", "a.js:1:1: "},
		{"a.js", "\n\n  x = /(/", "a.js:3:7: Unterminated group"}, {"a.js", strings.Repeat(" ", 4<<20+1), "longer than 4MiB"},
		{"a.js", "export const load = 5", "no load"}, {"a.js", "exports.load = require('fs')", "require"},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			_, err := js.Open(t.Context(), js.Spec{Name: tt.name, Source: []byte(tt.source)})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error = %v, want one line with %q", err, tt.want)
			}
		})
	}
	_, err := js.Open(t.Context(), js.Spec{Name: "a.ts", Source: []byte("let = ;")})
	var syntax *guest.SyntaxError
	if !errors.As(err, &syntax) || syntax.Line != 1 {
		t.Errorf("error = %#v, want a SyntaxError", err)
	}
	for _, bad := range []js.Spec{{Timeout: -1}, {MaxOutput: -1}, {MaxInstances: -1}, {Codec: "xml"}} {
		if _, err := js.Open(t.Context(), bad); err == nil {
			t.Errorf("%+v was opened", bad)
		}
	}
}

func TestEntry(t *testing.T) {
	tests := []struct {
		source string
		want   string
		batch  bool
	}{
		{`export default { load() { return this.x }, x: "object" }; export function load() { return "named" }`, `"object"`, false},
		{`export default class { static load() { return "class" } static loadAll() {} }`, `"class"`, true},
		{`export default function (key: string) { return "default" } export function load() {}`, `"default"`, false},
		{`export default async (key) => "arrow"; export function loadAll() {}`, `"arrow"`, true},
		{`export default { other: 1 }; export function load() { return "named" }`, `"named"`, false},
		{`export function load() { return "named" } export const loadAll = () => []`, `"named"`, true},
		{`function load() { return "plain" }`, `"plain"`, false}, {`const load = () => "const"; function loadAll() {}`, `"const"`, true},
		{`module.exports = { load() { return "commonjs" } }`, `"commonjs"`, false},
		{`import type { A } from "./a"; export default { load(): A { return "typed" as A } }`, `"typed"`, false},
		{`import { A } from "./a"; export default { load(): A { return "erased" as A } }`, `"erased"`, false},
		{`/*! keep */ export default { load() { return "map" } }` + "\n//# sourceMappingURL=/etc/passwd", `"map"`, false},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			l := open(t, js.Spec{Name: "a.ts", Source: []byte(tt.source)})
			r, err := l.Load(t.Context(), loader.Request{})
			if err != nil || string(r.Value) != tt.want {
				t.Errorf("value = %q, %v, want %q", r.Value, err, tt.want)
			}
			if _, ok := l.(loader.BatchLoader); ok != tt.batch {
				t.Errorf("is a BatchLoader: %v, want %v", ok, tt.batch)
			}
		})
	}
}

func TestFreshState(t *testing.T) {
	l := open(t, js.Spec{Name: "a.js", Source: []byte(
		`let n = 0; export function load() { n++; globalThis.m = (globalThis.m ?? 0) + 1; Array.prototype.x = (Array.prototype.x ?? 0) + 1; return [n, m, [].x] }`)})
	for range 3 {
		if r, err := l.Load(t.Context(), loader.Request{}); err != nil || string(r.Value) != "[1,1,1]" {
			t.Fatalf("value = %s, %v", r.Value, err)
		}
	}
}

func TestBadKey(t *testing.T) {
	l := open(t, js.Spec{Name: "a.js", Source: []byte(`export function load(k) { return k } export function loadAll(ks) { return ks.map((k) => k.length) }`)})
	r, err := l.Load(t.Context(), loader.Request{Key: "\xff"})
	if e := failure(t, r, err); e.Kind != loader.BadKey {
		t.Errorf("error = %v, want a bad key", e)
	}
	out, err := l.(loader.BatchLoader).LoadAll(t.Context(), []loader.Request{{Key: "ab"}, {Key: "\xff"}, {Key: "日"}})
	if err != nil || string(out[0].Result.Value) != "2" || string(out[2].Result.Value) != "1" {
		t.Fatalf("outcomes = %+v, %v", out, err)
	}
	if e := failure(t, out[1].Result, out[1].Err); e.Kind != loader.BadKey {
		t.Errorf("error = %v, want a bad key", e)
	}
}

func TestLoadAll(t *testing.T) {
	tests := []struct{ body, want string }{ // by outcome: the value, - for absent, ! with the message
		{`return new Map([["a", 1], ["b", null], ["z", 5]])`, "1 - -"},
		{`return keys.map(async (k) => { if (k === "b") throw new Error("no b"); return k })`, `"a" !no b "c"`},
		{`return [new Error("e"), ctx.retry("later"), ctx.value(3, {ttl: "1s"})]`, "!e !later 3"},
		{`return [NaN, undefined, () => 1]`, "!value: NaN !value: undefined !value: a function"},
		{`return [1, , 3]`, "1 !value: undefined 3"}, {`return [1, new Promise(() => {}), Promise.resolve(3)]`, "1 !a result of loadAll is a promise that nothing can settle any more 3"},
		{`return Promise.resolve(new Map(keys.map((k) => [k, Promise.resolve(k)])))`, `"a" "b" "c"`},
		{`await ctx.sleep(1); return keys.map(async (k) => { await ctx.sleep(1); return k })`, `"a" "b" "c"`},
		{`return [1, {get a() { return this.a }}, 3]`, "1 !stack overflow: calls nested deeper than 2048 3"},
		{`return {a: 1}`, "all: loadAll returned an object"}, {`return [1]`, "all: loadAll returned 1 results for 3 keys"},
		{`return new Set(keys)`, "all: loadAll returned a Set"}, {`return null`, "all: loadAll returned null"}, {`return "abc"`, "all: loadAll returned a string"},
		{`return new Map([[1, 2]])`, "all: loadAll returned a Map with a number"}, {`throw new Error("all of it")`, "all: all of it"}, {`return`, "all: loadAll returned undefined"},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			l := open(t, js.Spec{Name: "a.js", Source: []byte(`export function load() {} export async function loadAll(keys, ctx) {` + tt.body + `}`)})
			out, err := l.(loader.BatchLoader).LoadAll(t.Context(), []loader.Request{{Key: "a"}, {Key: "b"}, {Key: "c"}})
			got := outcomes(t, out, err)
			if all, ok := strings.CutPrefix(tt.want, "all: "); ok && strings.HasPrefix(got, "all: ") && strings.Contains(got, all) {
				return
			}
			if got != tt.want {
				t.Fatalf("outcomes = %s, want %s", got, tt.want)
			}
		})
	}
}

func outcomes(t *testing.T, out []loader.Outcome, err error) string {
	if err != nil {
		return "all: " + failure(t, loader.Result{}, err).Message
	}
	var parts []string
	for _, o := range out {
		switch {
		case o.Err != nil:
			m, _, _ := strings.Cut(failure(t, o.Result, o.Err).Message, " (at ")
			parts = append(parts, "!"+m)
		case o.Result.Status == loader.Absent:
			parts = append(parts, "-")
		default:
			parts = append(parts, string(o.Result.Value))
		}
	}
	return strings.Join(parts, " ")
}

// shelves reads namespaces that stand for codecs.
type shelves map[string]capability.Read

func (s shelves) Read(_ context.Context, namespace, key string) (capability.Read, bool, error) {
	v, ok := s[namespace]
	if !ok {
		return capability.Read{}, false, capability.ErrDenied
	}
	return v, key != "none", nil
}

func TestContext(t *testing.T) {
	set := capability.Set{
		Namespace: "users", Settings: map[string]string{"a": "1"}, Secrets: map[string]string{"s": "2"}, Log: slog.New(slog.DiscardHandler),
		Namespaces: shelves{
			"j": {Value: `{"a":[1]}`, Codec: "json"}, "s": {Value: "é", Codec: "string"}, "r": {Value: "\x00\xff", Codec: "raw"},
			"m":   {Value: "\x82\xa1a\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xa1b\x93\xc0\xc4\x01\x05\xcb\x3f\xe0\x00\x00\x00\x00\x00\x00", Codec: "msgpack"},
			"bad": {Value: "\xff", Codec: "string"}, "deep": {Value: strings.Repeat("\x91", 1000) + "\xc0", Codec: "msgpack"},
		},
	}
	tests := []struct{ body, want string }{
		{`[ctx.namespace, ctx.background, ctx.previousVersion === null, ctx.settings.a, ctx.secrets.s, typeof ctx.settings.toString]`, `["users",false,true,"1","2","undefined"]`},
		{`ctx.deadline > Date.now() && ctx.deadline < Date.now() + 5000`, `true`},
		{`await ctx.get("j", "k")`, `{"a":[1]}`}, {`await ctx.get("s", "k")`, `"é"`}, {`Array.from(await ctx.get("r", new Uint8Array([255])))`, `[0,255]`},
		{`await ctx.get("j", "none")`, ``},
		{`(await ctx.get("m", "k")).a`, `18446744073709551615`}, {`(({b}) => [b[0], b[1][0], b[2]])(await ctx.get("m", "k"))`, `[null,5,0.5]`},
		{`await ctx.get("x", "k").catch((e) => e.message)`, `"not allowed by the namespace's configuration"`},
		{`await ctx.get("bad", "k").catch((e) => e.message)`, `"the bytes are not UTF-8"`}, {`await ctx.get("deep", "k").catch((e) => e.message)`, `"the msgpack value is nested deeper than 256"`},
		{`await Promise.all(Array.from({length: 50}, async (_, i) => { await ctx.sleep(i % 3); return i })).then((a) => a.length)`, `50`},
		{`[typeof setTimeout, typeof require, typeof process, typeof window]`, `["undefined","undefined","undefined","undefined"]`},
		{`(console.log("x", {a: 1}, new Map(), new Error("e"), Symbol("s"), undefined), 1)`, `1`},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			r, err := open(t, js.Spec{Name: "a.js", Capabilities: set, Source: []byte(`export async function load(key, ctx) { return ` + tt.body + `}`)}).
				Load(t.Context(), loader.Request{Key: "k"})
			if err != nil || string(r.Value) != tt.want {
				t.Fatalf("value = %s, %v, want %s", r.Value, err, tt.want)
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	l, err := js.Open(b.Context(), js.Spec{Name: "a.ts", Source: []byte(`export default { async load(key) { return {key, n: 1} } }`)})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := l.Load(b.Context(), loader.Request{Key: "k"}); err != nil {
			b.Fatal(err)
		}
	}
	_ = l.Close()
}

package js_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cocache/cocache/loaders/js"
	"github.com/cocache/cocache/runtime/loader"
)

func TestThrown(t *testing.T) {
	tests := []struct{ body, message, code string }{
		{`throw null`, "threw null", ""}, {`throw undefined`, "threw undefined", ""}, {`throw "a text"`, "a text", ""}, {`throw ""`, "empty", ""},
		{`throw 42`, "42", ""}, {`throw 42n`, "42", ""}, {`throw Symbol("x")`, "Symbol", ""}, {`throw true`, "true", ""},
		{`throw new Error("first\nsecond\u2028third\u202e")`, "first second third", ""},
		{`throw new TypeError("bad")`, "TypeError: bad", ""}, {`throw new Error()`, "Error", ""},
		{`throw {code: "E_X", n: 1}`, "code, n", "E_X"}, {`throw {}`, "threw an object", ""}, {`throw []`, "threw an object", ""},
		{`throw {message: "m", code: 5}`, "m", ""}, {`throw {message: "m", code: "a b\nc/" + "x".repeat(100)}`, "m", "abc" + strings.Repeat("x", 61)},
		{`throw {toString() { throw 1 }}`, "cannot be read", ""}, {`throw {get message() { throw 1 }}`, "cannot be read", ""},
		{`throw {toString: null, valueOf: null}`, "", ""}, {`throw Object.create(null)`, "", ""},
		{`throw {message: "m", get code() { throw 1 }}`, "m", ""},
		{`throw {toString() { return "own text" }}`, "own text", ""},
		{`throw () => 1`, "a function", ""}, {`throw new Proxy({}, {get() { throw 1 }})`, "cannot be read", ""},
		{`throw Object.assign(new Error("m"), {stack: 5})`, "m", ""},
		{`throw ctx.absent()`, "return it", ""}, {`throw ctx.value(1)`, "return it", ""},
		{`return Promise.reject(new Error("no"))`, "no", ""}, {`return Promise.reject()`, "threw undefined", ""},
		{`return new Promise(() => {})`, "nothing can settle", ""}, {`await new Promise(() => {})`, "nothing can settle", ""},
		{`return {then() {}}`, "nothing can settle", ""}, {`return {then() { throw new Error("then") }}`, "then", ""},
		{`return {get then() { throw new Error("getter") }}`, "getter", ""},
		{`const p = Promise.resolve().then(() => p); return p`, "", ""},
		{`function f() { return f() + 1 }; return f()`, "stack overflow", ""},
		{`const o = {get a() { return this.a }}; return o.a`, "stack overflow", ""},
		{`function f() { [1].forEach(f) }; f()`, "stack overflow", ""},
		{`return JSON.parse("[".repeat(2e6))`, "nested deeper", ""},
		{`return JSON.parse("{")`, "SyntaxError", ""},
		{`return new Array(-1)`, "RangeError", ""}, {`return eval("}")`, "SyntaxError", ""},
		{`eval("//# sourceMappingURL=/etc/passwd\nthrow new Error('in eval')")`, "in eval", ""},
		{`new RegExp("(")`, "(at load users.ts:", ""}, {`Promise.prototype.then = 5; throw new Error("no then")`, "no then", ""},
		{`ctx.namespace = "x"`, "TypeError", ""}, {`ctx.settings.x = "x"`, "TypeError", ""},
		{`ctx.fetch("http://a.example/")`, "", ""}, {`await ctx.fetch("http://a.example/")`, "loader.allow.http", ""},
		{`await ctx.get("other", "k")`, "loader.allow.namespaces", ""}, {`await ctx.get(5, "k")`, "a number", ""},
		{`await ctx.sleep(-1)`, "milliseconds", ""}, {`ctx.retry("m", {after: "forever"})`, "forever", ""},
		{`let c = "p"; return new RegExp("\\" + c + "{L}", "u")`, "not supported", ""},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			defer soon(t, 10*time.Second)()
			r, err := load(t, "json", tt.body)
			e := failure(t, r, err)
			if e.Kind != loader.Failed || !strings.Contains(e.Message, tt.message) || e.Code != tt.code || strings.Contains(e.Message, "[object") {
				t.Fatalf("error = %#v, want one with %q and the code %q", e, tt.message, tt.code)
			}
		})
	}
}

func soon(t *testing.T, d time.Duration) func() {
	start := time.Now()
	return func() {
		t.Helper()
		if took := time.Since(start); took > d {
			t.Errorf("took %v", took)
		}
	}
}

func TestRetry(t *testing.T) {
	for _, tt := range []struct {
		body, message string
		after         time.Duration
	}{
		{`return ctx.retry()`, "", 0}, {`throw ctx.retry("later", {after: "1m"})`, "later", time.Minute},
		{`return Promise.reject(ctx.retry("a\nb"))`, "a b", 0},
	} {
		r, err := load(t, "json", tt.body)
		if e := failure(t, r, err); e.Kind != loader.Retry || e.Message != tt.message || e.After != tt.after {
			t.Errorf("%s: error = %#v", tt.body, e)
		}
	}
}

// TestPlace: a message names the line of the TypeScript that was written.
func TestPlace(t *testing.T) {
	src := "interface A { a: string }\nenum E { X,\n Y }\n\nexport async function load(key: string): Promise<A> {\n  throw new Error('here')\n}\n"
	for _, body := range []string{src, strings.Replace(src, "async ", "", 1)} {
		r, err := open(t, js.Spec{Name: "dir/users.ts", Source: []byte(body)}).Load(t.Context(), loader.Request{})
		if e := failure(t, r, err); !strings.Contains(e.Message, "users.ts:6:") {
			t.Errorf("message = %q, want one with users.ts:6", e.Message)
		}
	}
}

func TestEndless(t *testing.T) {
	tests := []string{
		`for (;;) {}`, `[1, 2, 3].sort(() => { for (;;) {} })`, `try { for (;;) {} } finally { for (;;) {} }`,
		`const again = () => Promise.resolve().then(again); await again()`,
		`for (;;) await null`,
		`return {get a() { for (;;) {} }}`, `return {get then() { for (;;) {} }}`, `throw {get message() { for (;;) {} }}`,
		`throw {message: "m", get code() { for (;;) {} }}`, `throw {toString() { for (;;) {} }}`,
		`throw Object.defineProperty(new Error(), "stack", {get() { for (;;) {} }})`,
		`return new Proxy({}, {get() { for (;;) {} }})`, `await ctx.sleep(1e9)`, `await Promise.race([ctx.sleep(1e9), new Promise(() => {})])`,
		`ctx.log.info({get a() { for (;;) {} }})`, `ctx.value(1, {get ttl() { for (;;) {} }})`,
		`await ctx.fetch({toString() { for (;;) {} }})`, `function* g() { for (;;) yield 1 }; return [...g()].length && Array.from(g())`,
		`JSON.stringify({toJSON() { for (;;) {} }})`, `"x".replace(/x/, () => { for (;;) {} })`,
	}
	for _, body := range tests {
		t.Run(body, func(t *testing.T) {
			l := open(t, js.Spec{Name: "a.js", Timeout: 100 * time.Millisecond, Source: []byte(
				`export async function load(key, ctx) { if (key === "") return 1; ` + body + ` }`)})
			defer soon(t, 10*time.Second)()
			r, err := l.Load(t.Context(), loader.Request{Key: "k"})
			if strings.HasPrefix(body, "return new Proxy") && err != nil && strings.Contains(err.Error(), "loader failed") {
				return
			}
			if e := failure(t, r, err); e.Kind != loader.TimedOut || e.Limit != "loader.limits.timeout" || e.Value != "100ms" {
				t.Fatalf("error = %#v, want the timeout", e)
			}
			if r, err := l.Load(t.Context(), loader.Request{}); err != nil || string(r.Value) != "1" {
				t.Fatalf("the next call: %q, %v", r.Value, err)
			}
		})
	}
}

func TestEndlessTopLevel(t *testing.T) {
	_, err := js.Open(t.Context(), js.Spec{Name: "a.js", Timeout: 100 * time.Millisecond, Source: []byte(`for (;;) {}; export function load() {}`)})
	var e *loader.Error
	if !errors.As(err, &e) || e.Kind != loader.TimedOut {
		t.Fatalf("error = %v, want the timeout", err)
	}
}

// TestLate: a call in the engine's own code does not stop in time, and is
// answered in time all the same.
func TestLate(t *testing.T) {
	l, err := js.Open(t.Context(), js.Spec{Name: "a.js", Timeout: 100 * time.Millisecond, MaxInstances: 1, Source: []byte(
		`function load(key) { return key === "" ? 1 : /^((a+)\2?)+$/.test("a".repeat(18) + "b") }`)})
	if err != nil {
		t.Fatal(err)
	}
	check := soon(t, 10*time.Second)
	r, err := l.Load(t.Context(), loader.Request{Key: "k"})
	check()
	if e := failure(t, r, err); e.Kind != loader.TimedOut {
		t.Errorf("error = %v, want the timeout", e)
	}
	for range 10 { // until the expression has come to its end
		if err = l.Close(); err == nil {
			return
		}
	}
	t.Error(err)
}

func TestClose(t *testing.T) {
	l, err := js.Open(t.Context(), js.Spec{Name: "a.js", Source: []byte(`async function load(key, ctx) { await ctx.sleep(200); return key }`)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := l.Load(context.Background(), loader.Request{Key: "k"})
		ended <- err
	}()
	time.Sleep(50 * time.Millisecond)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the call under way failed: %v", err)
	}
	if _, err := l.Load(t.Context(), loader.Request{}); !errors.Is(err, js.ErrClosed) {
		t.Errorf("error = %v, want ErrClosed", err)
	}
}

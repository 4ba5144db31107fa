package web_test

import (
	"testing"

	"github.com/dop251/goja"

	"github.com/cocache/cocache/loaders/js/encode"
	"github.com/cocache/cocache/loaders/js/web"
)

func eval(t *testing.T, src string) string {
	t.Helper()
	rt := goja.New()
	program, err := web.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if err := web.Install(rt, program, encode.New(rt, 0, nil)); err != nil {
		t.Fatal(err)
	}
	v, err := rt.RunString("try { String(" + src + ") } catch (e) { 'throws ' + e.name }")
	if err != nil {
		t.Fatal(err)
	}
	return v.String()
}

func TestPlatform(t *testing.T) {
	tests := []struct{ src, want string }{
		{`new URL("HTTPS://User:p%40@Example.COM:443/a/./b/../c d?q=é'#f g")`, "https://User:p%40@example.com/a/c%20d?q=%C3%A9%27#f%20g"},
		{`new URL("http://a.example")`, "http://a.example/"}, {`new URL("http:\\\\a.example\\b\\..\\c")`, "http://a.example/c"},
		{`new URL("/x?y", "http://a.example:8080/b/c?d#e")`, "http://a.example:8080/x?y"}, {`new URL("x", "http://a/b/c")`, "http://a/b/x"},
		{`new URL("../x", "http://a/b/c/d")`, "http://a/b/x"}, {`new URL("?q", "http://a/b?c#d")`, "http://a/b?q"}, {`new URL("#f", "http://a/b?c")`, "http://a/b?c#f"},
		{`new URL("", "http://a/b?c#d")`, "http://a/b?c"}, {`new URL("//b/c", "https://a/")`, "https://b/c"}, {`new URL("http://a/%2e%2E/%2e/x/%2e%2e")`, "http://a/"},
		{`new URL("x", "y")`, "throws TypeError"}, {`new URL("x")`, "throws TypeError"}, {`new URL("http://")`, "throws TypeError"}, {`new URL("http://a b/")`, "throws TypeError"},
		{`new URL("http://a:99999/")`, "throws TypeError"}, {`new URL("http://a:x/")`, "throws TypeError"}, {`new URL("http://日本/")`, "throws TypeError"},
		{`new URL("http://0x7f.1/")`, "http://127.0.0.1/"}, {`new URL("http://2130706433/")`, "http://127.0.0.1/"}, {`new URL("http://1.2.3.256/")`, "throws TypeError"},
		{`new URL("http://[::1]:8080/").host`, "[::1]:8080"}, {`new URL("http://[0:0::1]/").hostname`, "[::1]"}, {`new URL("http://[::1/")`, "throws TypeError"},
		{`new URL("mailto:a@b?c").pathname`, "a@b"}, {`new URL("mailto:a").origin`, "null"}, {`new URL("https://a:8443/b").origin`, "https://a:8443"},
		{`new URL("urn:x/../y")`, "urn:x/../y"}, {`new URL("foo://Host/a/../b").href`, "foo://Host/b"}, {`new URL("\n ht\ntp://a/ ")`, "http://a/"},
		{`(() => { const u = new URL("http://a/b?x=1"); u.searchParams.append("y", "ä &"); u.hash = "h"; u.port = "81"; u.pathname = "/c d"; u.protocol = "https"; return u })()`, "https://a:81/c%20d?x=1&y=%C3%A4+%26#h"},
		{`(() => { const u = new URL("http://a/?x=1"); const p = u.searchParams; u.search = "?z=2"; u.hostname = "b"; u.host = "c:9"; return p.get("z") + u })()`, "2http://c:9/?z=2"},
		{`(() => { const u = new URL("http://a/?x=1"); u.searchParams.delete("x"); u.port = "nonsense"; u.host = "bad host"; return u })()`, "http://a/"},
		{`JSON.stringify({u: new URL("http://a")})`, `{"u":"http://a/"}`}, {`URL.canParse("x") + " " + URL.parse("x")`, "false null"},
		{`new URLSearchParams({a: "1 2", b: "é&="})`, "a=1+2&b=%C3%A9%26%3D"}, {`new URLSearchParams([["a", 1], ["a", 2]]).getAll("a")`, "1,2"},
		{`new URLSearchParams("?a=b+c&d=%41%zz&&e").toString()`, "a=b+c&d=A%25zz&e="}, {`[...new URLSearchParams("b=1&a=2&b=3")].join(";")`, "b,1;a,2;b,3"},
		{`(() => { const p = new URLSearchParams("b=1&a=2&b=3"); p.set("b", 9); p.sort(); return p + "," + p.size + p.has("b", "9") + p.get("z") })()`, "a=2&b=9,2truenull"},
		{`new URLSearchParams([["a"]])`, "throws TypeError"}, {`new URLSearchParams("a=~*-._!'()").toString()`, "a=%7E*-._%21%27%28%29"},
		{`new TextEncoder().encode("é\ud800")`, "195,169,239,191,189"}, {`JSON.stringify(new TextEncoder().encodeInto("aé", new Uint8Array(2)))`, `{"read":1,"written":1}`},
		{`new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x61]))`, "a"}, {`new TextDecoder("utf-8", {ignoreBOM: true}).decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x61])).length`, "2"},
		{`new TextDecoder().decode(new Uint8Array([0x61, 0xe2, 0x82, 0xff, 0xf0, 0x9f, 0x98]))`, "a\ufffd\ufffd\ufffd"}, {`new TextDecoder().decode()`, ""},
		{`new TextDecoder().decode(new Uint8Array([0xed, 0xa0, 0x80])).length`, "3"}, {`new TextDecoder("utf8", {fatal: true}).decode(new Uint8Array([255]))`, "throws TypeError"},
		{`new TextDecoder().decode(new Uint16Array([0x6261]))`, "ab"}, {`new TextDecoder("latin1")`, "throws RangeError"}, {`new TextDecoder().decode("x")`, "throws TypeError"},
		{`btoa("\xff\x00a")`, "/wBh"}, {`btoa("€")`, "throws TypeError"}, {`btoa("")`, ""}, {`atob(" /wB h\n").length`, "3"}, {`atob("YQ==") + atob("YQ")`, "aa"},
		{`atob("Y")`, "throws TypeError"}, {`atob("Y!==")`, "throws TypeError"}, {`atob("/w==").charCodeAt(0)`, "255"},
		{`/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID())`, "true"},
		{`crypto.getRandomValues(new Uint32Array(8)).some((n) => n > 0)`, "true"}, {`crypto.getRandomValues([1])`, "throws TypeError"}, {`crypto.getRandomValues(new Uint8Array(65537))`, "throws RangeError"},
		{`JSON.parse('{"a":[1,"x"]}', (k, v) => (v === 1 ? 2 : v)).a`, "2,x"}, {`JSON.parse("[".repeat(2e6))`, "throws TypeError"}, {`JSON.parse("{")`, "throws SyntaxError"},
		{`JSON.parse('"' + "[".repeat(2000) + '"').length`, "2000"}, {`JSON.parse("[" .repeat(900) + "]".repeat(900)).length`, "1"},
		{`new RegExp("\\p{L}", "u")`, "throws SyntaxError"}, {`RegExp("\\P{L}")`, "throws SyntaxError"}, {`new RegExp("\\\\p{2}").test("\\pp")`, "true"},
		{`[new RegExp("a") instanceof RegExp, /a/ instanceof RegExp, /a/.constructor === RegExp, "abc".split(/b/).length, new (class R extends RegExp {})("x").test("x")]`, "true,true,true,2,true"},
		{`Object.keys(globalThis).length`, "0"}, {`(() => { globalThis.URL = 5; return URL + typeof URLSearchParams })()`, "5function"},
	}
	for _, tt := range tests {
		t.Run(tt.src, func(t *testing.T) {
			if got := eval(t, tt.src); got != tt.want {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
		})
	}
}

package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cocache/cocache/host/httpapi"
	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/runtime/policy"
)

const batch = "/v1/namespaces/n/batch/"

func post(h http.Handler, op, body string) *http.Response {
	return ask(h, request("POST", batch+op, body, "Content-Type: application/json"))
}

func wantBody(t *testing.T, resp *http.Response, want string) {
	t.Helper()
	body := bodyOf(t, resp)
	if resp.StatusCode != 200 || body != want {
		t.Errorf("%d\ngot  %s\nwant %s", resp.StatusCode, body, want)
	}
	if !json.Valid([]byte(body)) || resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("not a whole answer: %v", resp.Header)
	}
}

func TestBatchGet(t *testing.T) {
	odd := "{\"e\":1e400, \"h\":\"<a>&\u2028\", \"k\":1,\"k\":2}"
	f := &fake{found: map[string]cache.Item{"a": value(odd), "\x00\xff": value(`null`),
		"t": {Err: &loader.Error{Kind: loader.Failed, Message: "no", Code: "E"}}, "": value(`0`)}}
	const l2 = `"status":200,"source":"l2","ttl":42,"cacheStatus":"cocache-l2; hit; ttl=7"`
	wantBody(t, post(handler(f, policy.JSON), "get", `{"keys":["a",{"b64":"AP8"},"no","t","\u0061",{"b64":"YQ"},""]}`),
		`{"items":[{"key":"a",`+l2+`,"value":{"json":`+odd+`}},{"key":{"b64":"AP8"},`+l2+`,"value":{"json":null}},`+
			`{"key":"no","status":404,"code":"key-not-found","detail":"the key does not exist at the source","source":"l1","ttl":12,`+
			`"cacheStatus":"cocache-l1; hit; ttl=12; detail=absent, cocache-l2; fwd=uri-miss"},`+
			`{"key":"t","status":502,"code":"loader-failed","detail":"loader failed: no","loaderCode":"E"},`+
			`{"key":"a",`+l2+`,"value":{"json":`+odd+`}},{"key":{"b64":"YQ"},`+l2+`,"value":{"json":`+odd+`}},{"key":"",`+l2+`,"value":{"json":0}}]}`)
	wantBody(t, post(handler(f, policy.JSON), "get", `{"keys":[]}`), `{"items":[]}`)
}

func TestBatchGetByCodec(t *testing.T) {
	for _, c := range []struct {
		codec policy.Codec
		found cache.Lookup
		want  string
	}{
		{policy.String, cache.Lookup{Value: "", TTL: cache.Forever}, `"ttl":"forever","cacheStatus":"cocache-l2; hit; ttl=0","value":{"text":""}`},
		{policy.String, cache.Lookup{Value: "é\"\n"}, `"ttl":0,"cacheStatus":"cocache-l2; hit; ttl=0","value":{"text":"é\"\n"}`},
		{policy.Raw, cache.Lookup{Value: "\x00\xff\x10", ContentType: "a/b"},
			`"ttl":0,"cacheStatus":"cocache-l2; hit; ttl=0","contentType":"a/b","value":{"b64":"AP8Q"}`},
		{policy.Msgpack, cache.Lookup{Value: "\xc0"}, `"ttl":0,"cacheStatus":"cocache-l2; hit; ttl=0","value":{"b64":"wA"}`},
	} {
		c.found.Kind, c.found.Source = cache.Value, cache.FromL2
		f := &fake{found: map[string]cache.Item{"a": {Lookup: c.found}}}
		wantBody(t, post(handler(f, c.codec), "get", `{"keys":["a"]}`), `{"items":[{"key":"a","status":200,"source":"l2",`+c.want+`}]}`)
	}
}

// What others wrote to Redis must not break the answers to the other keys.
func TestBatchGetForeignValue(t *testing.T) {
	for c, bad := range map[policy.Codec]string{policy.JSON: `1},{"key":"x"`, policy.String: "\xff"} {
		f := &fake{found: map[string]cache.Item{"a": value(bad)}}
		body := bodyOf(t, post(handler(f, c), "get", `{"keys":["a"]}`))
		if !json.Valid([]byte(body)) || !strings.Contains(body, `"status":500,"code":"internal"`) {
			t.Errorf("%s: %s", c, body)
		}
	}
}

func TestBatchGetOnlyIfCached(t *testing.T) {
	f := &fake{found: map[string]cache.Item{"a": value("1"), "u": {Lookup: cache.Lookup{Kind: cache.Unpopulated}},
		"e": {Err: &cache.ReadError{Err: errors.New("down")}}}}
	body := bodyOf(t, post(handler(f, policy.JSON), "get", `{"onlyIfCached":true,"keys":["a","u","e","no"]}`))
	if got := statuses(t, body); got != "200 504 not-cached 503 l1-unavailable 404 key-not-found" {
		t.Errorf("got %s", got)
	}
	if got := strings.Join(f.calls, " "); got != "peek peek peek peek" {
		t.Errorf("calls %s", got)
	}
}

// statuses are an answer's, in order, with the codes.
func statuses(t *testing.T, body string) string {
	t.Helper()
	var answer struct {
		Items []struct {
			Status int
			Code   string
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	var all []string
	for _, it := range answer.Items {
		all = append(all, strings.TrimSpace(fmt.Sprint(it.Status, " ", it.Code)))
	}
	return strings.Join(all, " ")
}

func TestBatchGetBytesAnswered(t *testing.T) {
	f := &fake{found: map[string]cache.Item{"a": value(`"` + strings.Repeat("x", 38) + `"`), "b": value("1")}}
	h := handler(f, policy.JSON, func(o *httpapi.Options) { o.Limits.MaxBatchBytes = 100 })
	body := bodyOf(t, post(h, "get", `{"keys":["a","b","a","a","b","no"]}`))
	if got := statuses(t, body); got != "200 200 200 413 batch-too-large 413 batch-too-large 413 batch-too-large" {
		t.Errorf("got %s", got)
	}
}

func TestBatchBodies(t *testing.T) {
	three := func(o *httpapi.Options) { o.Limits.MaxBatchKeys, o.Limits.MaxBatchBytes = 3, 300 }
	for _, c := range []struct {
		op, body string
		status   int
		code     string
	}{
		{"get", ``, 400, "invalid-request"},
		{"get", `[]`, 400, "invalid-request"},
		{"get", `{}`, 400, "invalid-request"},
		{"get", `null`, 400, "invalid-request"},
		{"get", `{"keys":null}`, 400, "invalid-request"},
		{"get", `{"keys":"secretkey"}`, 400, "invalid-request"},
		{"get", `{"keys":[1]}`, 400, "invalid-request"},
		{"get", `{"keys":[null]}`, 400, "invalid-request"},
		{"get", `{"keys":[["a"]]}`, 400, "invalid-request"},
		{"get", `{"keys":[{}]}`, 400, "invalid-request"},
		{"get", `{"keys":[{"B64":"YQ"}]}`, 400, "invalid-request"},
		{"get", `{"keys":[{"b64":"YQ","b64":"YQ"}]}`, 400, "invalid-request"},
		{"get", `{"keys":[{"b64":"YQ=="}]}`, 400, "invalid-request"},
		{"get", `{"keys":[{"b64":"YR"}]}`, 400, "invalid-request"},
		{"get", `{"keys":[{"b64":"Y\nQ"}]}`, 400, "invalid-request"},
		{"get", `{"keys":[{"b64":1}]}`, 400, "invalid-request"},
		{"get", `{"keys":["a"],"keys":["b"]}`, 400, "invalid-request"},
		{"get", `{"keys":["a"],"k\u0065ys":["b"]}`, 400, "invalid-request"},
		{"get", `{"Keys":["a"]}`, 400, "invalid-request"},
		{"get", `{"keys":["a"],"secretkey":1}`, 400, "invalid-request"},
		{"get", `{"keys":["a"],"onlyIfCached":"true"}`, 400, "invalid-request"},
		{"get", `{"keys":["a"],"onlyIfCached":null}`, 400, "invalid-request"},
		{"get", `{"keys":["a"]} {}`, 400, "invalid-request"},
		{"get", `{"keys":["\ud800"]}`, 400, "invalid-request"},
		{"get", "{\"keys\":[\"\xff\"]}", 400, "invalid-request"},
		{"get", `{"keys":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, 400, "invalid-request"},
		{"get", `{"keys":["a","b","c","d"]}`, 413, "batch-too-large"},
		{"get", `{"keys":["` + strings.Repeat("a", 300) + `"]}`, 413, "batch-too-large"},
		{"invalidate", `{"keys":["a"],"onlyIfCached":true}`, 400, "invalid-request"},
		{"invalidate", `{"keys":["a","b","c","d"]}`, 413, "batch-too-large"},
		{"put", `{"keys":[]}`, 400, "invalid-request"},
		{"put", `{"items":[{"key":"a"}]}`, 400, "invalid-request"},
		{"put", `{"items":[{"value":{"json":1}}]}`, 400, "invalid-request"},
		{"put", `{"items":[{"key":"a","value":1}]}`, 400, "invalid-request"},
		{"put", `{"items":[{"key":"a","value":{}}]}`, 400, "invalid-request"},
		{"put", `{"items":[{"key":"a","value":{"json":1,"text":"1"}}]}`, 400, "invalid-request"},
		{"put", `{"items":[{"key":"a","value":{"json":1,"json":1}}]}`, 400, "invalid-request"},
		{"put", `{"items":[{"key":"a","value":{"b64":"="}}]}`, 400, "invalid-request"},
		{"put", `{"items":[{"key":"a","value":{"json":1},"ttl":30}]}`, 400, "invalid-request"},
		{"put", `{"items":[{"key":"a","value":{"json":1},"ttl":null}]}`, 400, "invalid-request"},
		{"put", `{"items":[{"key":"a","value":{"json":1}},{"key":"a","value":{"json":"\udc00"}}]}`, 400, "invalid-request"},
		{"put", `{"items":[{"key":"a","value":{"json":1}},{"key":"a","value":{"json":1}},{"key":"a","value":{"json":1}},{}]}`, 413, "batch-too-large"},
	} {
		f := &fake{}
		p := wantProblem(t, post(handler(f, policy.JSON, three), c.op, c.body), c.status, c.code)
		if t.Failed() {
			t.Fatalf("at %s %s", c.op, c.body)
		}
		if strings.Contains(fmt.Sprint(p), "secretkey") {
			t.Errorf("%s: names the key: %v", c.body, p)
		}
		if len(f.calls)+len(f.puts)+len(f.gone) > 0 {
			t.Errorf("%s: reached the cache", c.body)
		}
	}
}

func TestBatchContentType(t *testing.T) {
	for header, status := range map[string]int{"": 415, "Content-Type: text/plain": 415, "Content-Type: application/x-www-form-urlencoded": 415,
		"Content-Type: application/json; charset=utf-16": 415, "Content-Type: application/json;charset=UTF-8": 200,
		"Content-Encoding: gzip": 415} {
		resp := ask(handler(&fake{}, policy.JSON), request("POST", batch+"get", `{"keys":[]}`, header))
		if resp.StatusCode != status {
			t.Errorf("%s: %d", header, resp.StatusCode)
		}
	}
}

func TestBatchPut(t *testing.T) {
	f := &fake{}
	body := `{"items":[{"key":"a","value":{"json": {"n":1.10, "k":1,"k":2} },"ttl":"30s"},{"value":{"json":"x"},"key":{"b64":"AP8"}},
		{"key":"a","value":{"json":null},"ttl":"forever"},{"key":"b","value":{"text":"1"}},{"key":"c","value":{"json":1},"ttl":"0s"}]}`
	got := bodyOf(t, post(handler(f, policy.JSON), "put", body))
	if s := statuses(t, got); s != "204 204 204 400 invalid-value 400 invalid-ttl" {
		t.Errorf("got %s", s)
	}
	want := []put{{"a", `{"n":1.10, "k":1,"k":2}`, cache.PutOptions{TTL: 30 * time.Second}}, {"\x00\xff", `"x"`, cache.PutOptions{}},
		{"a", "null", cache.PutOptions{TTL: cache.Forever}}}
	if fmt.Sprint(f.puts) != fmt.Sprint(want) {
		t.Errorf("stored %q\nwant %q", f.puts, want)
	}
	if !strings.HasPrefix(got, `{"items":[{"key":"a","status":204},{"key":{"b64":"AP8"},"status":204},`) {
		t.Errorf("got %s", got)
	}
}

func TestBatchPutByCodec(t *testing.T) {
	for _, c := range []struct {
		codec             policy.Codec
		given, stored, ct string
	}{
		{policy.String, `{"text":""}`, "", ""},
		{policy.String, `{"text":"\ud83d\ude00\u0000"}`, "😀\x00", ""},
		{policy.Raw, `{"b64":""},"contentType":"a/b"`, "", "a/b"},
		{policy.Msgpack, `{"b64":"wA"}`, "\xc0", ""},
	} {
		f := &fake{}
		wantBody(t, post(handler(f, c.codec), "put", `{"items":[{"key":"","value":`+c.given+`}]}`), `{"items":[{"key":"","status":204}]}`)
		if len(f.puts) != 1 || f.puts[0] != (put{"", c.stored, cache.PutOptions{ContentType: c.ct}}) {
			t.Errorf("stored %q", f.puts)
		}
	}
}

func TestBatchWriteFaults(t *testing.T) {
	f := &fake{err: &cache.WriteError{Op: "put", OutcomeUnknown: true, Err: errors.New("eof")}}
	const failed = `"status":503,"code":"write-failed","detail":"The write may have been carried out, or not, or not have been told to everybody","outcomeUnknown":true}`
	wantBody(t, post(handler(f, policy.JSON), "put", `{"items":[{"key":"a","value":{"json":1}}]}`), `{"items":[{"key":"a",`+failed+`]}`)
	wantBody(t, post(handler(f, policy.JSON), "invalidate", `{"keys":["a"]}`), `{"items":[{"key":"a",`+failed+`]}`)
}

func TestBatchInvalidate(t *testing.T) {
	f := &fake{}
	wantBody(t, post(handler(f, policy.JSON), "invalidate", `{"keys":["a",{"b64":"AP8"},"a"]}`),
		`{"items":[{"key":"a","status":204},{"key":{"b64":"AP8"},"status":204},{"key":"a","status":204}]}`)
	if fmt.Sprintf("%q", f.gone) != `["a" "\x00\xff" "a"]` {
		t.Errorf("invalidated %q", f.gone)
	}
	wantBody(t, post(handler(f, policy.JSON), "invalidate", `{"keys":[]}`), `{"items":[]}`)
}

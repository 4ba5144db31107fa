package httpapi

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/cocache/cocache/runtime/policy"
)

// item is one key's part of a batch's answer, but for its value.
type item struct {
	Key            batchKey `json:"key"`
	Status         int      `json:"status"`
	Code           string   `json:"code,omitempty"`
	Detail         string   `json:"detail,omitempty"`
	LoaderCode     string   `json:"loaderCode,omitempty"`
	OutcomeUnknown *bool    `json:"outcomeUnknown,omitempty"`
	Source         string   `json:"source,omitempty"`
	TTL            any      `json:"ttl,omitempty"` // whole seconds or "forever"
	CacheStatus    string   `json:"cacheStatus,omitempty"`
	ContentType    string   `json:"contentType,omitempty"`
}

func ttlNumber(ttl time.Duration) any {
	if ttl == policy.Forever {
		return "forever"
	}
	return int64(ttl / time.Second)
}

// itemWriter writes {"items": […]} as it goes: the values of a batch are not
// copied together first.
type itemWriter struct {
	w     *bufio.Writer
	wrote bool
}

// startItems begins the answer of a batch, from here on a 200.
func (c *call) startItems() *itemWriter {
	c.start(http.StatusOK, "application/json", "no-store")
	out := &itemWriter{w: bufio.NewWriterSize(c.w, 16<<10)}
	out.w.WriteString(`{"items":[`)
	return out
}

// item writes one; with a form, its value too. A JSON value is written as it
// is: to encode it again would rewrite numbers, spaces and escapes.
func (o *itemWriter) item(it item, form, value string) {
	if o.wrote {
		o.w.WriteByte(',')
	}
	o.wrote = true
	text, err := json.Marshal(it)
	if err != nil { // its types cannot fail
		panic(err)
	}
	if form == "" {
		o.w.Write(text)
		return
	}
	o.w.Write(text[:len(text)-1])
	o.w.WriteString(`,"value":{"` + form + `":`)
	o.value(form, value)
	o.w.WriteString(`}}`)
}

func (o *itemWriter) value(form, value string) {
	switch form {
	case "json":
		o.w.WriteString(value)
	case "text":
		text, _ := json.Marshal(value)
		o.w.Write(text)
	default:
		o.w.WriteByte('"')
		enc := base64.NewEncoder(base64.RawURLEncoding, o.w)
		io.WriteString(enc, value)
		enc.Close()
		o.w.WriteByte('"')
	}
}

func (o *itemWriter) end() {
	o.w.WriteString(`]}`)
	o.w.Flush() // a client that does not take it has its own troubles
}

// fits refuses a value that would not come out of the answer as it is: written
// to Redis by others, or under another codec. It must not break the answers to
// the other keys either.
func fits(form, value string) *problem {
	if form == "b64" || form == "text" && utf8.ValidString(value) || form == "json" && json.Valid([]byte(value)) {
		return nil
	}
	return &problem{status: http.StatusInternalServerError, code: "internal",
		detail: "what is stored under the key is not a value of the namespace's codec"}
}

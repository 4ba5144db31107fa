package httpapi

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/cocache/cocache/runtime/loader"
)

// problem is why a request, or one item of a batch, was not done. Its text
// never holds a key.
type problem struct {
	status int
	code   string // what clients test
	detail string

	limit, value   string        // the setting that was hit
	loaderCode     string        // the loader's own word
	outcomeUnknown *bool         // of a write
	retryAfter     time.Duration // set for overloaded and loader-retry
	allow          string        // the methods there are
	close          bool          // the connection ends with the answer

	cause error      // for the log only
	level slog.Level // of that line
}

func (p *problem) Error() string { return p.detail }

// statusGone is what is counted when the client did not wait for an answer.
const statusGone = 499

func invalidRequest(detail string) *problem {
	return &problem{status: http.StatusBadRequest, code: "invalid-request", detail: detail}
}

func invalidKey(detail string) *problem {
	return &problem{status: http.StatusBadRequest, code: "invalid-key", detail: detail}
}

func unsupportedMedia(detail string) *problem {
	return &problem{status: http.StatusUnsupportedMediaType, code: "unsupported-media-type", detail: detail}
}

func tooLarge(code, limit string, value int64) *problem {
	text := strconv.FormatInt(value, 10)
	return &problem{status: http.StatusRequestEntityTooLarge, code: code, limit: limit, value: text,
		detail: "more than " + limit + " = " + text}
}

func draining() *problem {
	return &problem{status: http.StatusServiceUnavailable, code: "draining", detail: "this instance is shutting down", close: true}
}

// problemBody is a problem as RFC 9457 writes it.
type problemBody struct {
	Type           string `json:"type"`
	Title          string `json:"title"`
	Status         int    `json:"status"`
	Detail         string `json:"detail"`
	Code           string `json:"code"`
	RequestID      string `json:"requestId"`
	Namespace      string `json:"namespace,omitempty"`
	Limit          string `json:"limit,omitempty"`
	Value          string `json:"value,omitempty"`
	LoaderCode     string `json:"loaderCode,omitempty"`
	OutcomeUnknown *bool  `json:"outcomeUnknown,omitempty"`
}

// refuse answers with a problem. A client that has gone gets no answer at all:
// one that only closed its sending half would take whatever we wrote here for
// the value, so the connection is cut instead.
func (c *call) refuse(p *problem) {
	id := newRequestID()
	c.status = p.status
	c.logProblem(p, id)
	if p.status == statusGone {
		panic(http.ErrAbortHandler)
	}
	body := problemBody{
		Type: "about:blank", Title: http.StatusText(p.status), Status: p.status, Detail: p.detail, Code: p.code, RequestID: id,
		Limit: p.limit, Value: p.value, LoaderCode: p.loaderCode, OutcomeUnknown: p.outcomeUnknown,
	}
	if c.space != nil {
		body.Namespace = c.space.Name
	}
	header := c.w.Header()
	if p.allow != "" {
		header.Set("Allow", p.allow)
	}
	if p.retryAfter > 0 {
		header.Set("Retry-After", strconv.FormatInt(seconds(p.retryAfter), 10))
	}
	if p.close {
		header.Set("Connection", "close")
	}
	c.writeJSON(p.status, "application/problem+json", body)
}

func (c *call) logProblem(p *problem, id string) {
	level := slog.LevelDebug
	if p.cause != nil {
		level = p.level
	}
	if !c.log.Enabled(c.r.Context(), level) {
		return
	}
	attrs := []slog.Attr{slog.String("operation", c.name()), slog.Int("status", p.status),
		slog.String("code", p.code), slog.String("requestId", id)}
	if c.space != nil {
		attrs = append(attrs, slog.String("namespace", c.space.Name))
	}
	if p.cause != nil {
		attrs = append(attrs, slog.String("error", loader.Clean(p.cause.Error())))
	}
	c.log.LogAttrs(c.r.Context(), level, "request refused", attrs...)
}

// seconds rounds up, to at least one: a client that comes back at once is what
// the header is to prevent.
func seconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return max(whole, 1)
}

func newRequestID() string {
	var id [8]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// writeJSON answers with v; problems and descriptions are not for caches.
func (c *call) writeJSON(status int, contentType string, v any) {
	text, err := json.Marshal(v)
	if err != nil { // none of our types can fail
		panic(err)
	}
	header := c.w.Header()
	header.Set("Content-Length", strconv.Itoa(len(text)))
	c.start(status, contentType, "no-store")
	if c.r.Method != http.MethodHead {
		c.w.Write(text)
	}
}

// start sends the head of an answer that has a body.
func (c *call) start(status int, contentType, cacheControl string) {
	header := c.w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Cache-Control", cacheControl)
	header.Set("X-Content-Type-Options", "nosniff")
	c.status = status
	c.w.WriteHeader(status)
}

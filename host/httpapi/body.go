package httpapi

import (
	"errors"
	"io"
	"net/http"
	"os"

	"github.com/cocache/cocache/host/httpapi/strictjson"
	"github.com/cocache/cocache/runtime/codec"
	"github.com/cocache/cocache/runtime/policy"
)

// bodyType is the one content type of the body, empty when none was given.
func (c *call) bodyType() (string, *problem) {
	if c.r.Header.Get("Content-Encoding") != "" {
		return "", unsupportedMedia("an encoded body is refused: send it without Content-Encoding")
	}
	given := c.r.Header.Values("Content-Type")
	switch len(given) {
	case 0:
		return "", nil
	case 1:
		return given[0], nil
	default:
		return "", unsupportedMedia("more than one Content-Type")
	}
}

// jsonBody reads the body of a batch. The type is asked for because a web page
// can send any other across sites without being asked itself.
func (c *call) jsonBody() (strictjson.Document, *problem) {
	var none strictjson.Document
	given, refused := c.bodyType()
	if refused != nil {
		return none, refused
	}
	if given == "" || codec.CheckContentType(policy.JSON, given) != nil {
		return none, unsupportedMedia("the body must be application/json")
	}
	limit := c.limits.MaxBatchBytes
	body, refused := c.readBody(limit, tooLarge("batch-too-large", "limits.max-batch-bytes", limit))
	if refused != nil {
		return none, refused
	}
	d, err := strictjson.Read(body)
	return d, bodyFault(err)
}

// readBody reads the whole body, at most limit bytes of it; over is the problem
// of a longer one. A body that was said to be longer is not read at all.
func (c *call) readBody(limit int64, over *problem) ([]byte, *problem) {
	over.close = true // rather than read on to find the next request
	if c.r.ContentLength > limit {
		return nil, over
	}
	if !c.bodyHasEnd() {
		return nil, invalidRequest("HTTP/1.0 has no other end of a body than Content-Length")
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, limit))
	var more *http.MaxBytesError
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &more):
		return nil, over
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &problem{status: http.StatusRequestTimeout, code: "request-timeout", detail: "the body did not arrive in time", close: true}
	default:
		ended := invalidRequest("the body ended before its end")
		ended.close = true
		return nil, ended
	}
}

// bodyHasEnd is false for an HTTP/1.0 body without a length. net/http takes it
// for an empty one, chunked or not, and an empty value would be stored that
// nobody sent.
func (c *call) bodyHasEnd() bool {
	return c.r.ProtoAtLeast(1, 1) || c.r.Header.Get("Content-Length") != ""
}

package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"github.com/cocache/cocache/host/httpapi/strictjson"
	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/policy"
)

// batchKey is a key in the form in which it was asked for.
type batchKey struct {
	bytes  string
	binary bool
}

// MarshalJSON repeats the form.
func (k batchKey) MarshalJSON() ([]byte, error) {
	if k.binary {
		return json.Marshal(map[string]string{"b64": encodeB64(k.bytes)})
	}
	return json.Marshal(k.bytes)
}

// readKey reads "text" or {"b64": "…"}.
func readKey(d strictjson.Document, into *batchKey) error {
	isText, err := d.TextOr("a key", &into.bytes, strictjson.Members{
		"b64": func() error { return readB64(d, &into.bytes) },
	}, "b64")
	into.binary = !isText
	return err
}

// readB64 reads base64url as decodeB64 does.
func readB64(d strictjson.Document, into *string) error {
	var text string
	if err := d.Text("b64", &text); err != nil {
		return err
	}
	decoded, ok := decodeB64(text)
	if !ok {
		return errors.New("b64 must be canonical base64url without padding")
	}
	*into = decoded
	return nil
}

// oneMore refuses an element past max-batch-keys before it is read.
func (c *call) oneMore(have int) error {
	if have >= c.limits.MaxBatchKeys {
		return tooLarge("batch-too-large", "limits.max-batch-keys", int64(c.limits.MaxBatchKeys))
	}
	return nil
}

// bodyFault is the problem of a body that could not be read.
func bodyFault(err error) *problem {
	var p *problem
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		return p
	default:
		return invalidRequest(err.Error())
	}
}

// readKeys reads {"keys": […]} with further members beside it.
func (c *call) readKeys(further func(strictjson.Document) strictjson.Members) ([]batchKey, *problem) {
	d, refused := c.jsonBody()
	if refused != nil {
		return nil, refused
	}
	var keys []batchKey
	known := further(d)
	known["keys"] = func() error {
		return d.Array("keys", func() error {
			if err := c.oneMore(len(keys)); err != nil {
				return err
			}
			var key batchKey
			err := readKey(d, &key)
			keys = append(keys, key)
			return err
		})
	}
	err := d.Object("the body", known, "keys")
	return keys, bodyFault(err)
}

func bytesOf(keys []batchKey) []string {
	all := make([]string, len(keys))
	for i, key := range keys {
		all[i] = key.bytes
	}
	return all
}

// batchGet reads keys together; each has the status that it would have alone.
func (c *call) batchGet() *problem {
	onlyIfCached := false
	keys, refused := c.readKeys(func(d strictjson.Document) strictjson.Members {
		return strictjson.Members{"onlyIfCached": func() error { return d.Bool("onlyIfCached", &onlyIfCached) }}
	})
	if refused != nil {
		return refused
	}
	var found []cache.Item
	if onlyIfCached {
		found = c.peekAll(bytesOf(keys))
	} else {
		found = c.space.Cache.GetAll(c.r.Context(), bytesOf(keys))
	}
	if err := c.r.Context().Err(); err != nil {
		return faultOf(c.r.Context(), err)
	}
	c.answerRead(keys, found, onlyIfCached)
	return nil
}

// peeksPerBatch bounds the round trips of one batch that are under way at once.
const peeksPerBatch = 16

// peekAll looks for each key without loading any.
func (c *call) peekAll(keys []string) []cache.Item {
	items := make([]cache.Item, len(keys))
	queue := make(chan int, len(keys))
	for i := range keys {
		queue <- i
	}
	close(queue)
	var workers sync.WaitGroup
	for range min(peeksPerBatch, len(keys)) {
		workers.Go(func() {
			for i := range queue {
				items[i].Lookup, items[i].Err = c.space.Cache.Peek(c.r.Context(), keys[i])
			}
		})
	}
	workers.Wait()
	return items
}

// answerRead writes items until their values would pass max-batch-bytes; a
// client asks again for those from there on.
func (c *call) answerRead(keys []batchKey, found []cache.Item, onlyIfCached bool) {
	out := c.startItems()
	left, full := c.limits.MaxBatchBytes, false
	for i, key := range keys {
		answer, form, value := c.readItem(key, found[i], onlyIfCached)
		left -= int64(len(value))
		if full = full || left < 0; full {
			answer, form = c.failed(key, tooLarge("batch-too-large", "limits.max-batch-bytes", c.limits.MaxBatchBytes)), ""
		}
		out.item(answer, form, value)
	}
	out.end()
}

// readItem is one key's part of the answer; form is empty without a value.
func (c *call) readItem(key batchKey, found cache.Item, onlyIfCached bool) (answer item, form, value string) {
	if found.Err != nil {
		return c.failed(key, c.batchFault(found.Err, onlyIfCached)), "", ""
	}
	answer = item{Key: key, Status: http.StatusOK}
	refused := missing(found.Lookup, onlyIfCached)
	if refused == nil {
		form = formOf(c.space.codecOf())
		refused = fits(form, found.Lookup.Value)
	}
	if refused != nil {
		answer, form = c.failed(key, refused), ""
	}
	if answer.Status == http.StatusOK || answer.Status == http.StatusNotFound {
		answer.Source, answer.TTL = found.Lookup.Source.String(), ttlNumber(found.Lookup.TTL)
		answer.CacheStatus = cacheStatus(found.Lookup)
	}
	if form == "" {
		return answer, "", ""
	}
	answer.ContentType = ownType(c.space.codecOf(), found.Lookup)
	return answer, form, found.Lookup.Value
}

func (c *call) batchFault(err error, onlyIfCached bool) *problem {
	if onlyIfCached {
		return faultOf(c.r.Context(), err)
	}
	return readFault(c.r.Context(), err)
}

// failed is the item of a key that was not done.
func (c *call) failed(key batchKey, p *problem) item {
	if p.cause != nil {
		c.logProblem(p, newRequestID())
	}
	return item{Key: key, Status: p.status, Code: p.code, Detail: p.detail,
		LoaderCode: p.loaderCode, OutcomeUnknown: p.outcomeUnknown}
}

// batchInvalidate drops keys together.
func (c *call) batchInvalidate() *problem {
	keys, refused := c.readKeys(func(strictjson.Document) strictjson.Members { return strictjson.Members{} })
	if refused != nil {
		return refused
	}
	gone := c.space.Cache.InvalidateAll(c.writing(), bytesOf(keys))
	out := c.startItems()
	for i, key := range keys {
		item := c.written(key, gone[i].Err)
		if gone[i].Queued {
			item.Status = http.StatusAccepted
		}
		out.item(item, "", "")
	}
	out.end()
	return nil
}

// written is the item of a write.
func (c *call) written(key batchKey, err error) item {
	if err != nil {
		return c.failed(key, faultOf(c.writing(), err))
	}
	return item{Key: key, Status: http.StatusNoContent}
}

// formOf is the member that carries the codec's values in a batch.
func formOf(c policy.Codec) string {
	switch c {
	case policy.JSON:
		return "json"
	case policy.String:
		return "text"
	default:
		return "b64"
	}
}

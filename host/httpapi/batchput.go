package httpapi

import (
	"net/http"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/policy"
)

// putItem is one element of batch/put, as it was written.
type putItem struct {
	key         batchKey
	form, value string // the value's member, and its bytes
	ttl         *string
	contentType string
}

// batchPut stores values in their order, so that of two for one key the later
// stays. Nothing is stored before the whole body was understood.
func (c *call) batchPut() *problem {
	items, refused := c.readPuts()
	if refused != nil {
		return refused
	}
	answers := make([]item, len(items))
	for i, it := range items {
		if err := c.r.Context().Err(); err != nil { // nobody wants to know of the rest
			return faultOf(c.r.Context(), err)
		}
		answers[i] = c.putOne(it)
	}
	out := c.startItems()
	for _, answer := range answers {
		out.item(answer, "", "")
	}
	out.end()
	return nil
}

func (c *call) readPuts() ([]putItem, *problem) {
	body, refused := c.jsonBody()
	if refused != nil {
		return nil, refused
	}
	d := readDocument(body)
	var items []putItem
	return items, d.object("the body", members{"items": func() *problem {
		return d.array("items", func() *problem {
			if refused := c.oneMore(len(items)); refused != nil {
				return refused
			}
			var it putItem
			refused := d.put(&it)
			items = append(items, it)
			return refused
		})
	}}, "items")
}

func (d document) put(into *putItem) *problem {
	return d.object("an item", members{
		"key":         func() *problem { return d.key("key", &into.key) },
		"value":       func() *problem { return d.value(into) },
		"ttl":         func() *problem { into.ttl = new(string); return d.text("ttl", into.ttl) },
		"contentType": func() *problem { return d.text("contentType", &into.contentType) },
	}, "key", "value")
}

// value reads an object with exactly one member.
func (d document) value(into *putItem) *problem {
	one := func(form string, read func() *problem) func() *problem {
		return func() *problem {
			if into.form != "" {
				return invalidRequest("a value has exactly one of json, text and b64")
			}
			into.form = form
			return read()
		}
	}
	refused := d.object("value", members{
		"json": one("json", func() *problem { return d.raw(&into.value) }),
		"text": one("text", func() *problem { return d.text("text", &into.value) }),
		"b64":  one("b64", func() *problem { return d.b64("b64", &into.value) }),
	})
	if refused == nil && into.form == "" {
		return invalidRequest("a value has exactly one of json, text and b64")
	}
	return refused
}

// putOne stores one value, judged as a PUT of it would be.
func (c *call) putOne(it putItem) item {
	if want := formOf(c.space.codecOf()); it.form != want {
		return c.failed(it.key, &problem{status: http.StatusBadRequest, code: "invalid-value",
			detail: "values of this namespace are given as " + want})
	}
	options := cache.PutOptions{ContentType: it.contentType}
	if it.ttl != nil {
		ttl, err := policy.ParseTTL(*it.ttl)
		if err != nil {
			return c.failed(it.key, invalidTTL(err))
		}
		options.TTL = ttl
	}
	return c.written(it.key, c.space.Cache.Put(c.writing(), it.key.bytes, []byte(it.value), options))
}

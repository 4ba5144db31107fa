package httpapi

import (
	"errors"
	"net/http"

	"github.com/cocache/cocache/host/httpapi/strictjson"
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
	var puts []cache.Put
	var at []int
	for i, it := range items {
		put, refused := c.putOf(it)
		if refused != nil {
			answers[i] = c.failed(it.key, refused)
			continue
		}
		puts, at = append(puts, put), append(at, i)
	}
	for j, err := range c.space.Cache.PutAll(c.writing(), puts) {
		answers[at[j]] = c.written(items[at[j]].key, err)
	}
	out := c.startItems()
	for _, answer := range answers {
		out.item(answer, "", "")
	}
	out.end()
	return nil
}

func (c *call) readPuts() ([]putItem, *problem) {
	d, refused := c.jsonBody()
	if refused != nil {
		return nil, refused
	}
	var items []putItem
	err := d.Object("the body", strictjson.Members{"items": func() error {
		return d.Array("items", func() error {
			if err := c.oneMore(len(items)); err != nil {
				return err
			}
			var it putItem
			err := readPut(d, &it)
			items = append(items, it)
			return err
		})
	}}, "items")
	return items, bodyFault(err)
}

func readPut(d strictjson.Document, into *putItem) error {
	return d.Object("an item", strictjson.Members{
		"key":         func() error { return readKey(d, &into.key) },
		"value":       func() error { return readValue(d, into) },
		"ttl":         func() error { into.ttl = new(string); return d.Text("ttl", into.ttl) },
		"contentType": func() error { return d.Text("contentType", &into.contentType) },
	}, "key", "value")
}

// readValue reads an object with exactly one member.
func readValue(d strictjson.Document, into *putItem) error {
	exactlyOne := errors.New("a value has exactly one of json, text and b64")
	one := func(form string, read func() error) func() error {
		return func() error {
			if into.form != "" {
				return exactlyOne
			}
			into.form = form
			return read()
		}
	}
	err := d.Object("value", strictjson.Members{
		"json": one("json", func() error { return d.Raw(&into.value) }),
		"text": one("text", func() error { return d.Text("text", &into.value) }),
		"b64":  one("b64", func() error { return readB64(d, &into.value) }),
	})
	if err == nil && into.form == "" {
		return exactlyOne
	}
	return err
}

// putOf judges one value as a PUT of it would be.
func (c *call) putOf(it putItem) (cache.Put, *problem) {
	put := cache.Put{Key: it.key.bytes, Value: []byte(it.value), PutOptions: cache.PutOptions{ContentType: it.contentType}}
	if want := formOf(c.space.codecOf()); it.form != want {
		return put, &problem{status: http.StatusBadRequest, code: "invalid-value",
			detail: "values of this namespace are given as " + want}
	}
	if it.ttl != nil {
		ttl, err := policy.ParseTTL(*it.ttl)
		if err != nil {
			return put, invalidTTL(err)
		}
		put.TTL = ttl
	}
	return put, nil
}

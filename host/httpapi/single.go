package httpapi

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/codec"
	"github.com/cocache/cocache/runtime/policy"
)

// list names the namespaces.
func (c *call) list() *problem {
	names := slices.Sorted(slices.Values(c.namespaces.Names()))
	if names == nil {
		names = []string{}
	}
	c.writeJSON(http.StatusOK, "application/json", map[string][]string{"namespaces": names})
	return nil
}

// describe tells what a client must know before it uses the namespace.
func (c *call) describe() *problem {
	kind := c.space.Type
	if kind == "" {
		kind = TypeCache
	}
	c.writeJSON(http.StatusOK, "application/json", map[string]any{
		"name": c.space.Name, "type": kind, "codec": c.space.codecOf(),
		"limits": map[string]any{
			"maxKeyBytes": c.limits.MaxKeyBytes, "maxValueBytes": c.limits.MaxValueBytes,
			"maxBatchKeys": c.limits.MaxBatchKeys, "maxBatchBytes": c.limits.MaxBatchBytes,
		},
	})
	return nil
}

// get answers GET, and HEAD, which is a GET that loads nothing and has no body.
func (c *call) get() *problem {
	head := c.r.Method == http.MethodHead
	onlyIfCached := head || hasDirective(c.r.Header, "only-if-cached")
	found, refused := c.look(c.key, onlyIfCached)
	if refused != nil {
		return refused
	}
	refused = missing(found, onlyIfCached)
	header := c.w.Header()
	if refused == nil || refused.status == http.StatusNotFound {
		header.Set("Cache-Status", cacheStatus(found))
		header.Set("Cocache-TTL", ttlText(found.TTL))
	}
	if refused != nil {
		return refused
	}
	header.Set("Content-Length", strconv.Itoa(len(found.Value)))
	c.start(http.StatusOK, c.space.contentType(found), c.space.cacheControl())
	if !head {
		io.WriteString(c.w, found.Value) // a client that does not take it has its own troubles
	}
	return nil
}

func (c *call) look(key string, onlyIfCached bool) (cache.Lookup, *problem) {
	if onlyIfCached {
		found, err := c.space.Cache.Peek(c.r.Context(), key)
		if err != nil {
			return cache.Lookup{}, faultOf(c.r.Context(), err)
		}
		return found, nil
	}
	found, err := c.space.Cache.Get(c.r.Context(), key)
	if err != nil {
		return cache.Lookup{}, readFault(c.r.Context(), err)
	}
	return found, nil
}

// put stores the whole body or nothing.
func (c *call) put() *problem {
	options, refused := c.putOptions()
	if refused != nil {
		return refused
	}
	value, refused := c.readBody(c.limits.MaxValueBytes, tooLarge("value-too-large", "limits.max-value-bytes", c.limits.MaxValueBytes))
	if refused != nil {
		return refused
	}
	if err := c.space.Cache.Put(c.writing(), c.key, value, options); err != nil {
		return faultOf(c.writing(), err)
	}
	c.empty(http.StatusNoContent)
	return nil
}

// putOptions judges what stands before the body, so that a value which cannot
// be taken is not sent.
func (c *call) putOptions() (cache.PutOptions, *problem) {
	var options cache.PutOptions
	if c.r.Header.Get("Content-Range") != "" {
		return options, invalidRequest("a part of a value cannot be put: Content-Range is refused")
	}
	given, refused := c.bodyType()
	if refused != nil {
		return options, refused
	}
	if err := codec.CheckContentType(c.space.codecOf(), given); err != nil {
		return options, unsupportedMedia("content type: " + err.Error())
	}
	options.ContentType = given
	if c.query.Has("ttl") {
		ttl, err := policy.ParseTTL(c.query.Get("ttl"))
		if err != nil {
			return options, invalidTTL(err)
		}
		options.TTL = ttl
	}
	return options, nil
}

func invalidTTL(err error) *problem {
	return &problem{status: http.StatusBadRequest, code: "invalid-ttl", detail: err.Error()}
}

// delete invalidates the key, held or not; 202 when Redis could not be told yet.
func (c *call) delete() *problem {
	gone := c.space.Cache.InvalidateAll(c.writing(), []string{c.key})[0]
	switch {
	case gone.Err != nil:
		return faultOf(c.writing(), gone.Err)
	case gone.Queued:
		c.empty(http.StatusAccepted)
	default:
		c.empty(http.StatusNoContent)
	}
	return nil
}

// writing is the context of a write: once it was asked for in full, it is
// carried out though the client goes away. Redis's own time limit bounds it.
func (c *call) writing() context.Context { return context.WithoutCancel(c.r.Context()) }

// empty answers a write that has nothing to say but its status.
func (c *call) empty(status int) {
	c.w.Header().Set("X-Content-Type-Options", "nosniff")
	c.status = status
	c.w.WriteHeader(status)
}

package guest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/dop251/goja"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/loaders/js/encode"
	"github.com/cocache/cocache/runtime/loader"
)

// fetch reads its arguments at once and does the rest beside the script.
func (r *run) fetch(c goja.FunctionCall) goja.Value {
	req := capability.FetchRequest{URL: c.Argument(0).String(), Header: http.Header{}}
	if o := r.options(c.Argument(1)); o != nil {
		r.fetchOptions(o, &req)
	}
	return r.async(func(ctx context.Context) func() (goja.Value, error) {
		resp, err := r.host.Fetch(ctx, req)
		return func() (goja.Value, error) {
			if err != nil {
				return nil, err
			}
			return r.newResponse(resp), nil
		}
	})
}

func (r *run) fetchOptions(o *goja.Object, req *capability.FetchRequest) {
	if m := member(o, "method"); m != nil {
		req.Method = m.String()
	}
	if h := member(o, "headers"); h != nil {
		r.fetchHeaders(h, req.Header)
	}
	if b := member(o, "body"); b != nil && !goja.IsNull(b) {
		req.Body = r.fetchBody(b, req.Header)
	}
	mode := "follow"
	if m := member(o, "redirect"); m != nil {
		mode = m.String()
	}
	switch mode {
	case "follow":
	case "manual":
		req.Redirect = capability.Manual
	case "error":
		req.Redirect = capability.Refuse
	default:
		panic(r.rt.NewTypeError("ctx.fetch: redirect is follow, manual or error"))
	}
}

func (r *run) fetchHeaders(v goja.Value, header http.Header) {
	o, ok := v.(*goja.Object)
	if !ok {
		panic(r.rt.NewTypeError("ctx.fetch: headers are an object"))
	}
	if o.ClassName() == "Array" {
		r.rt.ForOf(o, func(pair goja.Value) bool {
			p := pair.ToObject(r.rt)
			header.Add(p.Get("0").String(), p.Get("1").String())
			return true
		})
		return
	}
	for _, name := range o.Keys() {
		header.Add(name, o.Get(name).String())
	}
}

func (r *run) fetchBody(v goja.Value, header http.Header) []byte {
	if b, ok := encode.Bytes(v); ok {
		return slices.Clone(b)
	}
	if !goja.IsString(v) {
		panic(r.rt.NewTypeError("ctx.fetch: the body is %s; it is a string or bytes", encode.Describe(v)))
	}
	text, ok := encode.Text(v)
	if !ok {
		panic(r.rt.NewTypeError("ctx.fetch: the body is a string with half a surrogate pair, which has no UTF-8"))
	}
	if header.Get("Content-Type") == "" {
		header.Set("Content-Type", "text/plain;charset=UTF-8")
	}
	return []byte(text)
}

func (r *run) newResponse(resp capability.FetchResponse) goja.Value {
	o := r.rt.NewObject()
	r.set(o, "status", resp.Status)
	r.set(o, "ok", resp.Status >= 200 && resp.Status < 300)
	r.set(o, "url", resp.URL)
	r.set(o, "headers", r.newHeaders(resp.Header))
	used := false
	body := func(read func([]byte) (goja.Value, error)) native {
		return func(goja.FunctionCall) goja.Value {
			return r.settled(func() (goja.Value, error) {
				if used {
					panic(r.rt.NewTypeError("the body was read already"))
				}
				used = true
				return read(resp.Body)
			})
		}
	}
	r.set(o, "text", body(r.vs.NewText))
	r.set(o, "json", body(func(b []byte) (goja.Value, error) { return r.vs.Decode(b, "json") }))
	r.set(o, "bytes", body(func(b []byte) (goja.Value, error) { return r.vs.NewBytes(b), nil }))
	r.set(o, "arrayBuffer", body(func(b []byte) (goja.Value, error) { return r.rt.ToValue(r.rt.NewArrayBuffer(b)), nil }))
	return r.frozen(o)
}

func (r *run) newHeaders(h http.Header) goja.Value {
	o := r.rt.NewObject()
	r.set(o, "get", func(c goja.FunctionCall) goja.Value {
		values := h.Values(c.Argument(0).String())
		if len(values) == 0 {
			return goja.Null()
		}
		return r.rt.ToValue(headerText(values))
	})
	r.set(o, "has", func(c goja.FunctionCall) goja.Value {
		return r.rt.ToValue(len(h.Values(c.Argument(0).String())) > 0)
	})
	r.set(o, "entries", func(goja.FunctionCall) goja.Value {
		var names []string
		for name := range h {
			names = append(names, name)
		}
		slices.Sort(names)
		pairs := make([]any, len(names))
		for i, name := range names {
			pairs[i] = r.rt.NewArray(strings.ToLower(name), headerText(h[name]))
		}
		return r.rt.NewArray(pairs...)
	})
	return r.frozen(o)
}

// headerText joins the values of one name; what is not UTF-8 is replaced.
func headerText(values []string) string {
	return strings.ToValidUTF8(strings.Join(values, ", "), "\ufffd")
}

// get reads another namespace's value and decodes it by that one's codec.
func (r *run) get(c goja.FunctionCall) goja.Value {
	namespace := c.Argument(0)
	if !goja.IsString(namespace) {
		panic(r.rt.NewTypeError("ctx.get: the namespace is %s; it is a string", encode.Describe(namespace)))
	}
	key, ok := "", false
	if b, isBytes := encode.Bytes(c.Argument(1)); isBytes {
		key, ok = string(b), true
	} else if goja.IsString(c.Argument(1)) {
		key, ok = encode.Text(c.Argument(1))
	}
	if !ok {
		panic(r.rt.NewTypeError("ctx.get: the key is %s; it is a well-formed string or bytes", encode.Describe(c.Argument(1))))
	}
	name := namespace.String()
	return r.async(func(ctx context.Context) func() (goja.Value, error) {
		v, found, err := r.host.Get(ctx, name, key)
		return func() (goja.Value, error) {
			switch {
			case err != nil:
				return nil, readError(name, err)
			case !found:
				return goja.Null(), nil
			}
			return r.vs.Decode([]byte(v.Value), v.Codec)
		}
	})
}

// readError makes a failure of another namespace's loader one of this: its
// limits are not ours. That it asks for another try holds for both.
func readError(namespace string, err error) error {
	var e *loader.Error
	if errors.As(err, &e) && e.Kind != loader.Retry {
		return loader.Failf("read namespace %.64s: %s", namespace, e.Error())
	}
	return err
}

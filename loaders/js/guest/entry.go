package guest

import (
	"fmt"
	"unicode/utf8"

	"github.com/dop251/goja"

	"github.com/cocache/cocache/loaders/js/encode"
	"github.com/cocache/cocache/runtime/loader"
)

// script is what a script's top level left behind.
type script struct {
	this          goja.Value
	load, loadAll goja.Callable
	bytes         bool
}

// entry runs the top level and finds load: in the default export, as it, among
// the exports, or as a plain function, in this order.
func (r *run) entry(p *Program) (s script, err error) {
	exports, module := r.rt.NewObject(), r.rt.NewObject()
	var plain goja.Value
	err = r.guarded(func() error {
		if err := module.Set("exports", exports); err != nil {
			return err
		}
		wrapper, err := r.rt.RunProgram(p.main)
		if err != nil {
			return err
		}
		call, _ := goja.AssertFunction(wrapper)
		plain, err = call(goja.Undefined(), exports, module)
		return err
	})
	if err != nil {
		return script{}, err
	}
	// Exports are getters, and may be anything.
	err = r.guarded(func() (err error) {
		s, err = r.find(module.Get("exports"), plain)
		return err
	})
	return s, err
}

func (r *run) find(exported, plain goja.Value) (script, error) {
	exports, ok := exported.(*goja.Object)
	if !ok {
		exports = r.rt.NewObject()
	}
	s := script{this: goja.Undefined()}
	switch keys := exports.Get("keys"); {
	case keys == nil || goja.IsUndefined(keys):
	case goja.IsString(keys) && keys.String() == "bytes":
		s.bytes = true
	default:
		return s, loader.Failf(`the export keys is "bytes" or left out`)
	}
	def, _ := exports.Get("default").(*goja.Object)
	locals, _ := plain.(*goja.Object)
	if def != nil {
		if s.load = method(def, "load"); s.load != nil {
			s.this = def
			s.loadAll = method(def, "loadAll")
			return s, nil
		}
		s.load, _ = goja.AssertFunction(def)
	}
	for _, o := range []*goja.Object{exports, locals} {
		if s.load == nil {
			s.load = method(o, "load")
		}
		if s.loadAll == nil {
			s.loadAll = method(o, "loadAll")
		}
	}
	if s.load == nil {
		return s, loader.Failf("the script has no load; write: export default { load(key, ctx) { … } }")
	}
	return s, nil
}

func method(o *goja.Object, name string) goja.Callable {
	if o == nil {
		return nil
	}
	f, _ := goja.AssertFunction(o.Get(name))
	return f
}

// invoke calls a function of the script's and awaits what it returns.
func (r *run) invoke(f goja.Callable, this, arg goja.Value, what string) (goja.Value, error) {
	v, err := f(this, arg, r.context)
	if err != nil {
		return nil, r.failure(err)
	}
	return r.await(v, what)
}

// load answers an outcome, or the error that ends the call.
func (r *run) load(s script, req loader.Request) (loader.Outcome, error) {
	key, err := r.key(s, req.Key)
	if err != nil {
		return loader.Outcome{}, err
	}
	v, err := r.invoke(s.load, s.this, key, "what load returned")
	if err != nil {
		return loader.Outcome{}, err
	}
	o := r.outcome(v, false)
	return o, o.Err
}

// key is a key as the script gets it.
func (r *run) key(s script, key string) (goja.Value, error) {
	if s.bytes {
		return r.vs.NewBytes([]byte(key)), nil
	}
	if !utf8.ValidString(key) {
		return nil, &loader.Error{Kind: loader.BadKey, Message: `the key is not UTF-8; a script that takes such keys says: export const keys = "bytes"`}
	}
	return r.rt.ToValue(key), nil
}

// outcome is what a returned value stands for. In a batch an Error among the
// values is that key's failure.
func (r *run) outcome(v goja.Value, batch bool) loader.Outcome {
	if goja.IsNull(v) {
		return loader.Outcome{Result: loader.Result{Status: loader.Absent}}
	}
	if o, ok := v.(*goja.Object); ok {
		if a, ok := r.answers[o]; ok {
			return a
		}
		if batch && o.ClassName() == "Error" {
			return loader.Outcome{Err: r.thrown(v)}
		}
	}
	var b []byte
	err := r.guarded(func() (err error) {
		b, err = r.vs.Encode(v, r.call.Codec)
		return err
	})
	return loader.Outcome{Result: loader.Result{Value: b}, Err: err}
}

// loadAll answers one outcome per request. Keys that the script cannot take
// are not given to it.
func (r *run) loadAll(s script) ([]loader.Outcome, error) {
	if s.loadAll == nil {
		return nil, loader.Failf("the script has no loadAll any more")
	}
	out := make([]loader.Outcome, len(r.call.Requests))
	var keys []goja.Value
	var index []int // of keys in out
	for i, req := range r.call.Requests {
		key, err := r.key(s, req.Key)
		if err != nil {
			out[i].Err = err
			continue
		}
		keys, index = append(keys, key), append(index, i)
	}
	items := make([]any, len(keys))
	for i, k := range keys {
		items[i] = k
	}
	v, err := r.invoke(s.loadAll, s.this, r.rt.NewArray(items...), "what loadAll returned")
	if err != nil {
		return nil, err
	}
	values, err := r.results(s, v, index)
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		if out[index[i]], err = r.item(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// item awaits and reads one key's result. Its failure is that key's alone, but
// for the end of the whole call.
func (r *run) item(v goja.Value) (loader.Outcome, error) {
	if v == nil {
		return loader.Outcome{Result: loader.Result{Status: loader.Absent}}, nil
	}
	var o loader.Outcome
	v, err := r.await(v, "a result of loadAll")
	if err == nil {
		o = r.outcome(v, true)
	} else {
		o.Err = err
	}
	if ended := r.ctx.Err(); ended != nil && o.Err != nil {
		return o, ended
	}
	return o, nil
}

// results are the values of the keys at index, nil for one that was left out.
func (r *run) results(s script, v goja.Value, index []int) (values []goja.Value, err error) {
	o, _ := v.(*goja.Object)
	err = r.guarded(func() error {
		switch {
		case encode.IsMap(v):
			values, err = r.fromMap(s, o, index)
			return err
		case encode.IsArray(v):
			values, err = fromArray(o, len(index))
			return err
		}
		return loader.Failf("loadAll returned %s; it returns a Map, or an array in the order of the keys", encode.Describe(v))
	})
	return values, err
}

func fromArray(o *goja.Object, n int) ([]goja.Value, error) {
	if got := o.Get("length").ToInteger(); got != int64(n) {
		return nil, loader.Failf("loadAll returned %d results for %d keys", got, n)
	}
	values := make([]goja.Value, n)
	for i := range values {
		if values[i] = o.Get(fmt.Sprint(i)); values[i] == nil {
			values[i] = goja.Undefined()
		}
	}
	return values, nil
}

// fromMap looks the keys up by their bytes. A key of another sort is an error:
// a script that mixes up numbers and texts would else make every key absent.
func (r *run) fromMap(s script, m *goja.Object, index []int) ([]goja.Value, error) {
	found := map[string]goja.Value{}
	var wrong goja.Value
	collect := r.rt.ToValue(func(c goja.FunctionCall) goja.Value {
		key := c.Argument(1)
		if b, ok := encode.Bytes(key); ok && s.bytes {
			found[string(b)] = c.Argument(0)
		} else if !s.bytes && goja.IsString(key) {
			found[key.String()] = c.Argument(0)
		} else if wrong == nil {
			wrong = key
		}
		return goja.Undefined()
	})
	if _, err := r.mapForEach(m, collect); err != nil {
		return nil, err
	}
	if wrong != nil {
		want := "a string"
		if s.bytes {
			want = "a Uint8Array"
		}
		return nil, loader.Failf("loadAll returned a Map with %s for a key; each key is %s", encode.Describe(wrong), want)
	}
	values := make([]goja.Value, len(index))
	for i, at := range index {
		values[i] = found[r.call.Requests[at].Key]
	}
	return values, nil
}

package guest

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dop251/goja"

	"github.com/cocache/cocache/loaders/js/encode"
	"github.com/cocache/cocache/runtime/loader"
)

// answer is an object that stands for an outcome. It can be returned, and
// means nothing inside another value.
func (r *run) answer(o loader.Outcome) goja.Value {
	object := r.rt.CreateObject(r.answerProto)
	r.answers[object] = o
	return object
}

func (r *run) value(c goja.FunctionCall) goja.Value {
	b, err := r.vs.Encode(c.Argument(0), r.call.Codec)
	if err != nil {
		r.throw(r.failure(err))
	}
	return r.stored(b, c.Argument(1))
}

func (r *run) bytes(c goja.FunctionCall) goja.Value {
	v := c.Argument(0)
	b, ok := encode.Bytes(v)
	if !ok {
		if !goja.IsString(v) {
			panic(r.rt.NewTypeError("ctx.bytes: %s; it takes a string or bytes", encode.Describe(v)))
		}
		text, ok := encode.Text(v)
		if !ok {
			panic(r.rt.NewTypeError("ctx.bytes: a string with half a surrogate pair, which has no UTF-8"))
		}
		b = []byte(text)
	}
	if r.call.MaxOutput > 0 && int64(len(b)) > r.call.MaxOutput {
		r.throw(r.failure(encode.ErrTooLarge))
	}
	if err := encode.Check(b, r.call.Codec); err != nil {
		panic(r.rt.NewTypeError("ctx.bytes: %s", err.Error()))
	}
	return r.stored(slices.Clone(b), c.Argument(1))
}

// stored adds what the second argument says about a value.
func (r *run) stored(b []byte, options goja.Value) goja.Value {
	res := loader.Result{Value: b}
	if o := r.options(options); o != nil {
		res.TTL = r.ttl(o, "ttl")
		res.Version = r.version(o)
		res.ContentType = r.contentType(o)
		noStore := o.Get("noStore")
		res.NoStore = noStore != nil && noStore.ToBoolean()
	}
	return r.answer(loader.Outcome{Result: res})
}

func (r *run) absent(c goja.FunctionCall) goja.Value {
	res := loader.Result{Status: loader.Absent}
	if o := r.options(c.Argument(0)); o != nil {
		res.TTL, res.Version = r.ttl(o, "ttl"), r.version(o)
	}
	return r.answer(loader.Outcome{Result: res})
}

func (r *run) retry(c goja.FunctionCall) goja.Value {
	e := &loader.Error{Kind: loader.Retry}
	if m := c.Argument(0); !goja.IsUndefined(m) {
		e.Message = loader.Clean(m.String())
	}
	if o := r.options(c.Argument(1)); o != nil {
		if e.After = r.ttl(o, "after"); e.After == loader.Forever {
			panic(r.rt.NewTypeError(`after: "forever" is no time for another try`))
		}
	}
	return r.answer(loader.Outcome{Err: e})
}

func (r *run) options(v goja.Value) *goja.Object {
	if goja.IsUndefined(v) {
		return nil
	}
	o, ok := v.(*goja.Object)
	if !ok {
		panic(r.rt.NewTypeError("the options are %s; they are an object", encode.Describe(v)))
	}
	return o
}

// member is nil when it is not there.
func member(o *goja.Object, name string) goja.Value {
	v := o.Get(name)
	if v == nil || goja.IsUndefined(v) {
		return nil
	}
	return v
}

func (r *run) ttl(o *goja.Object, name string) time.Duration {
	v := member(o, name)
	if v == nil {
		return 0
	}
	if !goja.IsString(v) {
		panic(r.rt.NewTypeError(`%s: %s; it is a text with a unit, such as "5m"`, name, encode.Describe(v)))
	}
	d, err := parseDuration(v.String())
	if err != nil {
		panic(r.rt.NewTypeError("%s: %s", name, err.Error()))
	}
	return d
}

// parseDuration reads digits with the units ms, s, m, h and d, combined as in
// "1h30m", or "forever".
func parseDuration(s string) (time.Duration, error) {
	if s == "forever" {
		return loader.Forever, nil
	}
	units := []struct {
		name string
		size time.Duration
	}{{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}}
	var total time.Duration
	for rest := s; rest != ""; {
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		n, err := strconv.ParseInt(digits, 10, 64)
		rest = rest[len(digits):]
		i := slices.IndexFunc(units, func(u struct {
			name string
			size time.Duration
		}) bool {
			return strings.HasPrefix(rest, u.name)
		})
		if err != nil || i < 0 {
			return 0, fmt.Errorf(`%.40q is no time; write one such as "90s", "1h30m" or "forever"`, s)
		}
		if n > (math.MaxInt64-1-int64(total))/int64(units[i].size) {
			return 0, fmt.Errorf(`%.40q is too long; write "forever"`, s)
		}
		total += time.Duration(n) * units[i].size
		rest = rest[len(units[i].name):]
	}
	if total <= 0 {
		return 0, fmt.Errorf("%.40q is not more than 0", s)
	}
	return total, nil
}

func (r *run) version(o *goja.Object) uint64 {
	v := member(o, "version")
	if v == nil {
		return 0
	}
	n := new(big.Int)
	switch {
	case goja.IsBigInt(v):
		n, _ = v.Export().(*big.Int)
	case goja.IsString(v):
		if s := v.String(); strings.Trim(s, "0123456789") != "" || s == "" || len(s) > 20 {
			panic(r.rt.NewTypeError("version: %.40q is not made of digits", s))
		}
		n.SetString(v.String(), 10)
	case goja.IsNumber(v):
		f := v.ToFloat()
		if f != math.Trunc(f) || math.Abs(f) > 1<<53-1 {
			panic(r.rt.NewTypeError("version: the number %s is not exact; use a bigint or digits", v.String()))
		}
		n.SetInt64(int64(f))
	default:
		panic(r.rt.NewTypeError("version: %s; it is a bigint, digits, or an integer", encode.Describe(v)))
	}
	if !n.IsUint64() {
		panic(r.rt.NewTypeError("version: %.40s is not between 0 and 18446744073709551615", n.String()))
	}
	return n.Uint64()
}

// contentType is empty for the codec's own.
func (r *run) contentType(o *goja.Object) string {
	v := member(o, "contentType")
	if v == nil {
		return ""
	}
	own := map[string]string{
		"json": "application/json", "string": "text/plain; charset=utf-8", "msgpack": "application/vnd.msgpack",
	}[r.call.Codec]
	text := v.String()
	switch {
	case own == "" && (text == "" || len(text) > 127 || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })):
		panic(r.rt.NewTypeError("contentType: it is 1 to 127 printable ASCII characters"))
	case own == "":
		return text
	case !strings.EqualFold(text, own):
		panic(r.rt.NewTypeError("contentType: %.127q, but the codec %s has %s", text, r.call.Codec, own))
	}
	return ""
}

package guest

import (
	"context"
	"log/slog"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/dop251/goja"

	"github.com/cocache/cocache/loaders/js/encode"
	"github.com/cocache/cocache/runtime/loader"
)

type native = func(goja.FunctionCall) goja.Value

// newContext builds ctx, the second argument of load, and console.
func (r *run) newContext() *goja.Object {
	c := r.rt.NewObject()
	background, previous := len(r.call.Requests) > 0, goja.Null()
	for _, req := range r.call.Requests {
		background = background && req.Background
	}
	if len(r.call.Requests) == 1 && r.call.Requests[0].PreviousVersion > 0 {
		previous = r.rt.ToValue(new(big.Int).SetUint64(r.call.Requests[0].PreviousVersion))
	}
	log := r.newLog()
	r.set(c, "namespace", r.call.Namespace)
	r.set(c, "background", background)
	r.set(c, "deadline", r.call.Deadline.UnixMilli())
	r.set(c, "previousVersion", previous)
	r.set(c, "settings", r.newTexts(r.call.Settings))
	r.set(c, "secrets", r.newTexts(r.call.Secrets))
	r.set(c, "log", log)
	for name, f := range map[string]native{
		"value": r.value, "bytes": r.bytes, "absent": r.absent, "retry": r.retry, "fetch": r.fetch, "get": r.get, "sleep": r.sleep,
	} {
		r.set(c, name, f)
	}
	r.frozen(c)
	if err := r.rt.GlobalObject().DefineDataProperty("console", r.newConsole(log), goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE); err != nil {
		panic(err)
	}
	return c
}

func (r *run) set(o *goja.Object, name string, v any) {
	if err := o.Set(name, v); err != nil {
		panic(err)
	}
}

func (r *run) frozen(o *goja.Object) *goja.Object {
	if _, err := r.freeze(goja.Undefined(), o); err != nil {
		panic(err)
	}
	return o
}

// newTexts has no prototype, so that no name but those in m has a value.
func (r *run) newTexts(m map[string]string) *goja.Object {
	o := r.rt.CreateObject(nil)
	for name, v := range m {
		r.set(o, name, v)
	}
	return r.frozen(o)
}

func (r *run) newLog() *goja.Object {
	o := r.rt.NewObject()
	for name, level := range map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	} {
		r.set(o, name, r.logAt(level))
	}
	return r.frozen(o)
}

func (r *run) newConsole(log *goja.Object) *goja.Object {
	o := r.rt.NewObject()
	for _, name := range []string{"debug", "info", "warn", "error"} {
		r.set(o, name, log.Get(name))
	}
	r.set(o, "log", log.Get("info"))
	r.set(o, "trace", log.Get("debug"))
	return o
}

func (r *run) logAt(level slog.Level) native {
	return func(c goja.FunctionCall) goja.Value {
		parts := make([]string, len(c.Arguments))
		for i, v := range c.Arguments {
			parts[i] = r.logText(v)
		}
		r.host.Log(r.ctx, level, loader.Clean(strings.Join(parts, " ")))
		return goja.Undefined()
	}
}

// logText is one value for a log line: texts as they are, what has JSON as
// that, of anything else the sort.
func (r *run) logText(v goja.Value) string {
	o, ok := v.(*goja.Object)
	if !ok {
		return v.String()
	}
	if o.ClassName() == "Error" {
		return errorText(o)
	}
	if b, err := r.vs.Encode(v, "json"); err == nil {
		return string(b)
	}
	return "(" + encode.Describe(v) + ")"
}

func (r *run) sleep(c goja.FunctionCall) goja.Value {
	ms := c.Argument(0).ToFloat()
	if math.IsNaN(ms) || ms < 0 {
		panic(r.rt.NewTypeError("ctx.sleep: the time is milliseconds, 0 or more"))
	}
	d := time.Duration(min(ms, float64(math.MaxInt64/int64(time.Millisecond)/2)) * float64(time.Millisecond))
	return r.async(func(ctx context.Context) func() (goja.Value, error) {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return func() (goja.Value, error) { return goja.Undefined(), nil }
	})
}

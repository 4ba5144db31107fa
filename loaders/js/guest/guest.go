// Package guest runs one call of a script.
//
// It compiles scripts, gives each call a runtime of its own, and turns
// whatever the script returns or throws into outcomes. It asks its host for
// everything that is outside the script, and knows neither configuration nor
// limits of time but for the context that ends a call; so it runs the same in
// this process and in a worker.
//
// What it cannot do: bound memory, or end a single call into the engine's own
// code (a regular expression, 'x'.repeat(2**30)), which returns when it is
// done. Whoever runs scripts that are not trusted runs them in a process that
// can be killed.
package guest

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/loaders/js/encode"
	"github.com/cocache/cocache/loaders/js/web"
	"github.com/cocache/cocache/runtime/loader"
)

// maxCalls is how deep calls may be nested. Calls that pass through the
// engine's own functions use the goroutine's stack, and unwinding them takes
// time that grows with the square of the depth and cannot be interrupted.
const maxCalls = 2048

// Host answers what a script asks for. Fetch and Get are called from several
// goroutines at once and must return soon after ctx ends; they get the context
// of the call, values included. The lines for Log are clean.
type Host interface {
	Fetch(ctx context.Context, r capability.FetchRequest) (capability.FetchResponse, error)
	Get(ctx context.Context, namespace, key string) (v capability.Read, found bool, err error)
	Log(ctx context.Context, level slog.Level, line string)
}

// Call is what one call is about.
type Call struct {
	Namespace string
	// Codec encodes what the script returns: "json", "string", "msgpack", "raw".
	Codec             string
	Settings, Secrets map[string]string
	// MaxOutput bounds each value; 0 leaves it unbounded.
	MaxOutput int64
	// Deadline is told to the script; the context of Run enforces it.
	Deadline time.Time
	// Batch calls loadAll with all keys, else load is called with the only one.
	Batch    bool
	Requests []loader.Request
}

// Exports is what a script offers.
type Exports struct {
	LoadAll bool
	// Bytes: keys are given as bytes.
	Bytes bool
}

// Inspect runs a script's top level and reports what it exports. It fails when
// there is no load.
func Inspect(ctx context.Context, p *Program, h Host, c Call) (e Exports, err error) {
	r, err := start(ctx, p, h, c)
	if err != nil {
		return Exports{}, err
	}
	defer r.close()
	defer recovered(ctx, &err)
	script, err := r.entry(p)
	if err != nil {
		return Exports{}, err
	}
	return Exports{LoadAll: script.loadAll != nil, Bytes: script.bytes}, nil
}

// Run runs one call and answers one outcome per request. What the script did
// wrong is a *loader.Error, in an outcome or, when it fails all, as the error;
// once ctx has ended the error is ctx's. Nothing of the call goes on when Run
// has returned.
func Run(ctx context.Context, p *Program, h Host, c Call) (out []loader.Outcome, err error) {
	r, err := start(ctx, p, h, c)
	if err != nil {
		return nil, err
	}
	defer r.close()
	defer recovered(ctx, &err)
	script, err := r.entry(p)
	if err != nil {
		return nil, err
	}
	if c.Batch {
		return r.loadAll(script)
	}
	o, err := r.load(script, c.Requests[0])
	return []loader.Outcome{o}, err
}

// recovered makes a failure of the engine the script's: it is the script that
// reached it, and the runtime it happened in is never used again.
func recovered(ctx context.Context, err *error) {
	x := recover()
	if x == nil {
		return
	}
	if *err = ctx.Err(); *err == nil {
		*err = loader.Failf("the script made the engine fail: %s", panicText(x))
	}
}

// panicText reads only what runs no script code.
func panicText(x any) string {
	switch x := x.(type) {
	case interface{ RuntimeError() }:
		return x.(error).Error()
	case string:
		return x
	}
	return "unknown reason"
}

// run is the state of one call. Its methods belong to the goroutine that
// started it, but for what async starts.
type run struct {
	rt     *goja.Runtime
	vs     *encode.Values
	ctx    context.Context
	cancel context.CancelFunc
	host   Host
	call   Call

	pending int // operations whose promises are not settled
	done    chan func() error
	wg      sync.WaitGroup
	unhook  func() bool

	answerProto *goja.Object
	answers     map[*goja.Object]loader.Outcome // what ctx.value and its like made
	hostErrors  map[*goja.Object]error          // the errors that scripts see of the host's
	errorCtor   *goja.Object
	freeze      goja.Callable
	mapForEach  goja.Callable
	context     *goja.Object
}

func start(ctx context.Context, p *Program, h Host, c Call) (r *run, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && r != nil {
			r.close()
		}
	}()
	defer recovered(ctx, &err)
	rt := goja.New()
	rt.SetMaxCallStackSize(maxCalls)
	rt.SetParserOptions(parser.WithDisableSourceMaps) // of eval and new Function
	r = &run{
		rt: rt, host: h, call: c, done: make(chan func() error),
		answers: map[*goja.Object]loader.Outcome{}, hostErrors: map[*goja.Object]error{},
	}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.unhook = context.AfterFunc(ctx, func() { rt.Interrupt("stopped") })
	r.vs = encode.New(rt, c.MaxOutput, ctx.Err)
	r.capture()
	if err := web.Install(rt, p.platform, r.vs); err != nil {
		if ended := ctx.Err(); ended != nil {
			return r, ended
		}
		return r, err
	}
	r.context = r.newContext()
	return r, nil
}

// capture takes the built-in functions that are needed later, before a script
// can replace them.
func (r *run) capture() {
	global := func(name string) *goja.Object { return r.rt.Get(name).ToObject(r.rt) }
	r.answerProto = r.rt.NewObject()
	r.errorCtor = global("Error")
	r.freeze, _ = goja.AssertFunction(global("Object").Get("freeze"))
	r.mapForEach, _ = goja.AssertFunction(global("Map").Get("prototype").ToObject(r.rt).Get("forEach"))
}

// close ends what the call started and waits for it.
func (r *run) close() {
	r.unhook()
	r.cancel()
	r.wg.Wait()
}

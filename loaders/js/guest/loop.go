package guest

import (
	"context"
	"fmt"
	"reflect"

	"github.com/dop251/goja"

	"github.com/cocache/cocache/runtime/loader"
)

// maxPending bounds the operations of one call that are under way at once.
const maxPending = 4096

// try runs f inside the engine, so that what script code throws in it becomes
// an error, of the engine's types. Promise jobs that became ready run too.
func (r *run) try(f func() error) error {
	var inner error
	call, _ := goja.AssertFunction(r.rt.ToValue(func(goja.FunctionCall) goja.Value {
		inner = f()
		return goja.Undefined()
	}))
	if _, err := call(goja.Undefined()); err != nil {
		return err
	}
	return inner
}

// guarded is try with an error that can be handed out.
func (r *run) guarded(f func() error) error {
	if err := r.try(f); err != nil {
		return r.failure(err)
	}
	return nil
}

// async starts work on a goroutine of its own and returns the promise of what
// finish makes of it. finish runs on the script's goroutine.
func (r *run) async(work func(ctx context.Context) (finish func() (goja.Value, error))) goja.Value {
	if r.pending == maxPending {
		panic(r.newError(loader.Failf("more than %d operations at once", maxPending)))
	}
	promise, resolve, reject := r.rt.NewPromise()
	r.pending++
	r.wg.Go(func() {
		finish := work(r.ctx)
		select {
		case r.done <- func() error { return r.finish(finish, resolve, reject) }:
		case <-r.ctx.Done():
		}
	})
	return r.rt.ToValue(promise)
}

// settled is the promise of what finish makes right now.
func (r *run) settled(finish func() (goja.Value, error)) goja.Value {
	promise, resolve, reject := r.rt.NewPromise()
	if err := r.finish(finish, resolve, reject); err != nil {
		panic(err)
	}
	return r.rt.ToValue(promise)
}

type settle = func(any) error

func (r *run) finish(finish func() (goja.Value, error), resolve, reject settle) error {
	var v goja.Value
	err := r.try(func() (err error) {
		v, err = finish()
		return err
	})
	switch err := err.(type) {
	case nil:
		return resolve(v)
	case *goja.Exception:
		return reject(err.Value())
	case *goja.InterruptedError, *goja.StackOverflowError:
		return err
	default:
		return reject(r.newError(err))
	}
}

// await runs the script until v, if it is a promise, is settled, and answers
// with its value. what names v in messages.
func (r *run) await(v goja.Value, what string) (goja.Value, error) {
	promise, err := r.promiseOf(v)
	if err != nil {
		return nil, err
	}
	for promise.State() == goja.PromiseStatePending {
		if r.pending == 0 {
			return nil, loader.Failf("%s is a promise that nothing can settle any more", what)
		}
		select {
		case finish := <-r.done:
			r.pending--
			if err := finish(); err != nil {
				return nil, r.failure(err)
			}
		case <-r.ctx.Done():
			return nil, r.ctx.Err()
		}
	}
	if promise.State() == goja.PromiseStateRejected {
		return nil, r.thrown(promise.Result())
	}
	return promise.Result(), nil
}

// promiseOf is v if it is a promise, else one that follows what v becomes,
// since any object with a then may be awaited.
func (r *run) promiseOf(v goja.Value) (*goja.Promise, error) {
	if o, ok := v.(*goja.Object); ok && o.ExportType() == reflect.TypeFor[*goja.Promise]() {
		if promise, ok := o.Export().(*goja.Promise); ok {
			return promise, nil
		}
	}
	promise, resolve, _ := r.rt.NewPromise()
	if err := resolve(v); err != nil {
		return nil, r.failure(err)
	}
	return promise, nil
}

// newError is an Error that a script can catch. If it does not, err is what
// the call fails with.
func (r *run) newError(err error) *goja.Object {
	o, e := r.rt.New(r.errorCtor, r.rt.ToValue(messageOf(err)))
	if e != nil {
		panic(e)
	}
	r.hostErrors[o] = err
	return o
}

func messageOf(err error) string {
	if e, ok := err.(*loader.Error); ok {
		if e.Limit != "" {
			return loader.Clean(fmt.Sprintf("%s (%s = %s)", e.Message, e.Limit, e.Value))
		}
		return e.Message
	}
	return loader.Clean(err.Error())
}

// throw makes err an exception of the script's current call.
func (r *run) throw(err error) {
	switch err := err.(type) {
	case *goja.Exception:
		panic(err.Value())
	case *goja.InterruptedError, *goja.StackOverflowError:
		panic(err)
	}
	panic(r.newError(err))
}

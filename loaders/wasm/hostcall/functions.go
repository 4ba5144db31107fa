package hostcall

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
	f64 = api.ValueTypeF64
)

// errOver ends a guest from inside a host function when its time is over. What
// ended it, the caller or the limit, is asked of the contexts afterwards.
var errOver = errors.New("the call is over")

// function is one function that a guest may import.
type function struct {
	module, name    string
	params, results []api.ValueType
	body            body
}

// body does a host function's work. Arguments and result are in stack. It may
// panic to end the call: errOver, a *loader.Error or a *sys.ExitError.
type body func(c *Call, mem api.Memory, stack []uint64)

// Call implements api.GoModuleFunction. A guest that calls the host for ever
// ends here at its deadline, whatever the engine does about its loops.
func (b body) Call(ctx context.Context, mod api.Module, stack []uint64) {
	c := callOf(ctx)
	if c.ctx.Err() != nil {
		panic(errOver)
	}
	b(c, mod.Memory(), stack)
}

// i32s is the body of a function that takes and answers i32 only.
func i32s(f func(c *Call, mem api.Memory, a []uint32) int32) body {
	return func(c *Call, mem api.Memory, stack []uint64) {
		var args [8]uint32
		n := copyArgs(args[:], stack)
		stack[0] = api.EncodeI32(f(c, mem, args[:n]))
	}
}

func copyArgs(args []uint32, stack []uint64) int {
	n := min(len(args), len(stack))
	for i := range n {
		args[i] = uint32(stack[i])
	}
	return n
}

// types is n times i32.
func types(n int) []api.ValueType {
	t := make([]api.ValueType, n)
	for i := range t {
		t[i] = i32
	}
	return t
}

// functions is every function that a guest may import, of all modules.
func functions() []function {
	return append(append(ownFunctions(), wasiFunctions()...), assemblyScriptFunctions()...)
}

// Instantiate makes the host modules of one runtime. What they export, name and
// type, is all that a guest of that runtime may import.
func Instantiate(ctx context.Context, r wazero.Runtime) error {
	builders := map[string]wazero.HostModuleBuilder{}
	for _, f := range functions() {
		b, ok := builders[f.module]
		if !ok {
			b = r.NewHostModuleBuilder(f.module)
			builders[f.module] = b
		}
		b.NewFunctionBuilder().WithGoModuleFunction(f.body, f.params, f.results).Export(f.name)
	}
	for name, b := range builders {
		if _, err := b.Instantiate(ctx); err != nil {
			return fmt.Errorf("make host module %s: %w", name, err)
		}
	}
	return nil
}

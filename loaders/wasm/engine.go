package wasm

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/cocache/cocache/loaders/wasm/hostcall"
	"github.com/cocache/cocache/sdk/abi"
)

// engine is one module, compiled once, with the host modules it may import.
type engine struct {
	spec     Spec
	runtime  wazero.Runtime
	module   wazero.CompiledModule
	hasBatch bool
	hasStart bool // exports _initialize
}

// newEngine compiles a module and checks it. Nothing of it runs yet.
func newEngine(ctx context.Context, spec Spec, binary []byte) (*engine, error) {
	// The engine's own memory limit stays at its maximum: the instance's
	// memory bounds the guest, see there. The engine's clocks, random source
	// and standard streams are not configured, since package hostcall brings
	// its own.
	config := wazero.NewRuntimeConfig().WithCloseOnContextDone(true)
	e := &engine{spec: spec, runtime: wazero.NewRuntimeWithConfig(ctx, config)}
	if err := e.prepare(ctx, binary); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

func (e *engine) prepare(ctx context.Context, binary []byte) error {
	if len(binary) == 0 {
		return errors.New("the module is empty")
	}
	if err := e.compile(ctx, binary); err != nil {
		return fmt.Errorf("compile module: %s", oneLine(err))
	}
	if err := hostcall.Instantiate(ctx, e.runtime); err != nil {
		return err
	}
	if err := inspect(e.runtime, e.module, e.spec.MaxMemory); err != nil {
		return err
	}
	exports := e.module.ExportedFunctions()
	_, e.hasBatch = exports[abi.LoadAll]
	_, e.hasStart = exports[abi.Initialize]
	return nil
}

// compile takes a panic of the compiler as the module's fault: whoever wrote
// the module chose what the compiler met.
func (e *engine) compile(ctx context.Context, binary []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the compiler panics: %v", p)
		}
	}()
	e.module, err = e.runtime.CompileModule(ctx, binary)
	return err
}

// instantiate makes a fresh instance. A start section and _initialize run under
// the limits of the call.
func (e *engine) instantiate(c *call) (*instance, error) {
	mem := &memory{limit: uint64(e.spec.MaxMemory)}
	c.memory = mem
	ctx := experimental.WithMemoryAllocator(c.ctx, mem)
	// No name, so that there may be many, and no start functions: which one
	// there is was checked, and it is called below.
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	mod, err := e.runtime.InstantiateModule(ctx, e.module, config)
	if err != nil {
		mem.Free()
		return nil, fmt.Errorf("start module: %w", err)
	}
	inst := newInstance(mod, mem, e.hasBatch)
	if e.hasStart {
		if _, err := mod.ExportedFunction(abi.Initialize).Call(c.ctx); err != nil {
			inst.close()
			return nil, err
		}
	}
	return inst, nil
}

// close frees the compiled code. Closing takes no context: it is to be done
// even when the caller's has ended.
func (e *engine) close() error {
	if err := e.runtime.Close(context.Background()); err != nil {
		return fmt.Errorf("close engine: %w", err)
	}
	return nil
}

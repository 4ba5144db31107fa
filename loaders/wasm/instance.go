package wasm

import (
	"context"

	"github.com/tetratelabs/wazero/api"

	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/sdk/abi"
)

// instance is one running copy of the module, for one call at a time.
type instance struct {
	module  api.Module
	memory  *memory
	alloc   api.Function
	load    api.Function
	loadAll api.Function // nil without a batch
	frame   []byte       // the last request's, reused
}

func newInstance(mod api.Module, mem *memory, hasBatch bool) *instance {
	i := &instance{
		module: mod, memory: mem,
		alloc: mod.ExportedFunction(abi.Alloc),
		load:  mod.ExportedFunction(abi.Load),
	}
	if hasBatch {
		i.loadAll = mod.ExportedFunction(abi.LoadAll)
	}
	return i
}

func (i *instance) close() {
	_ = i.module.Close(context.Background())
	i.memory.Free()
}

// call makes one call. An error of one key is in its outcome; an error beside
// them means that the instance is spent.
func (i *instance) call(c *call, kind abi.Kind, reqs []loader.Request) ([]loader.Outcome, error) {
	c.memory = i.memory
	i.memory.refused = false
	ptr, size, err := i.send(c, makeRequest(c, kind, reqs))
	if err != nil {
		return nil, err
	}
	fn := i.load
	if kind == abi.KindLoadAll {
		fn = i.loadAll
	}
	answer, err := fn.Call(c.ctx, uint64(ptr), uint64(size))
	if err != nil {
		return nil, err
	}
	if answer[0] == 0 {
		return nil, c.outOfMemory()
	}
	return i.receive(c, answer[0], len(reqs))
}

// send puts the request where the guest allocates room for it.
func (i *instance) send(c *call, r *abi.Request) (ptr, size uint32, err error) {
	i.frame = abi.AppendRequest(i.frame[:0], r)
	size = uint32(len(i.frame))
	res, err := i.alloc.Call(c.ctx, uint64(size))
	if err != nil {
		return 0, 0, err
	}
	if ptr = uint32(res[0]); ptr == 0 {
		return 0, 0, c.outOfMemory()
	}
	if !i.module.Memory().Write(ptr, i.frame) {
		return 0, 0, loader.Failf("bad frame: %s answered %d, which leaves no room for %d bytes", abi.Alloc, ptr, size)
	}
	return ptr, size, nil
}

// receive reads the response where it lies. Nothing is allocated before every
// number in it was checked.
func (i *instance) receive(c *call, answer uint64, keys int) ([]loader.Outcome, error) {
	ptr, size := abi.Unpack(answer)
	frame, ok := i.module.Memory().Read(ptr, size)
	if !ok {
		return nil, loader.Failf("bad frame: the response, %d bytes at %d, lies outside the memory", size, ptr)
	}
	answers, err := abi.DecodeResponse(frame, keys)
	if err != nil {
		return nil, err
	}
	return outcomes(c.spec, answers), nil
}

//go:build wasip1

package wasm

import (
	"fmt"
	"runtime/debug"
	"unsafe"

	"github.com/cocache/cocache/sdk/abi"
)

// Handler loads one key. The key is the handler's to keep.
type Handler func(key []byte, c *Context) Result

// BatchHandler loads several keys in one call and answers one Result for each,
// in their order.
type BatchHandler func(keys [][]byte, c *Context) []Result

// program is what a Wasm module has to keep between the calls of its exports:
// the handlers, and the two buffers that the host reads and writes. It is used
// by one call at a time.
var program struct {
	load     Handler
	loadAll  BatchHandler
	request  []byte
	response []byte
}

// Handle makes h the module's loader. Call it from an init function. Batches
// are answered key by key, unless HandleAll is called as well.
func Handle(h Handler) { program.load = h }

// HandleAll makes h the loader of batches.
func HandleAll(h BatchHandler) { program.loadAll = h }

//go:wasmexport cocache_abi_v1
func marker() {}

//go:wasmexport cocache_alloc
func alloc(size uint32) uint32 {
	if uint32(cap(program.request)) < size {
		program.request = make([]byte, size)
	}
	program.request = program.request[:size]
	return address(program.request)
}

//go:wasmexport cocache_load
func load(_, _ uint32) uint64 { return respond(eachKey) }

//go:wasmexport cocache_load_all
func loadAll(_, _ uint32) uint64 {
	if program.loadAll == nil {
		return respond(eachKey)
	}
	return respond(allKeys)
}

// respond answers the request that lies in program.request, which is where the
// host was told to write it.
func respond(answer func(r *abi.Request) []Result) uint64 {
	r, err := abi.DecodeRequest(program.request)
	if err != nil {
		panic(err)
	}
	results := answer(r)
	out := program.response[:0]
	for i := range results {
		out = abi.AppendAnswer(out, &results[i].answer)
	}
	program.response = out
	if len(out) == 0 {
		// Not an answer. The pair of zeros would say that memory ran out.
		return abi.Pack(address(program.request), 0)
	}
	return abi.Pack(address(out), uint32(len(out)))
}

func address(b []byte) uint32 {
	return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

func eachKey(r *abi.Request) []Result {
	results := make([]Result, len(r.Keys))
	for i := range r.Keys {
		results[i] = oneKey(r, i)
	}
	return results
}

func oneKey(r *abi.Request, i int) (result Result) {
	defer recovered(func(failed Result) { result = failed })
	if program.load == nil {
		return Error("", "the module has no handler: call Handle in an init function")
	}
	return program.load([]byte(r.Keys[i].Key), newContext(r, i))
}

func allKeys(r *abi.Request) (results []Result) {
	defer recovered(func(failed Result) {
		results = make([]Result, len(r.Keys))
		for i := range results {
			results[i] = failed
		}
	})
	keys := make([][]byte, len(r.Keys))
	for i, k := range r.Keys {
		keys[i] = []byte(k.Key)
	}
	return program.loadAll(keys, newContext(r, -1))
}

// recovered turns a panic into an answer, so that it costs the key and not the
// instance.
func recovered(set func(Result)) {
	if p := recover(); p != nil {
		text := fmt.Sprint(p)
		Log(LevelError, "panic: "+text+" "+string(debug.Stack()))
		set(Error("", "panic: "+text))
	}
}

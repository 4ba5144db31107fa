package wasm

import (
	"encoding/binary"
	"slices"
)

// The pieces of hand-made modules, for what no compiler would emit.

const (
	opUnreachable = 0x00
	opLoop        = 0x03
	opBr          = 0x0c
	opEnd         = 0x0b
	opCall        = 0x10
	opDrop        = 0x1a
	opLocalGet    = 0x20
	opI32Const    = 0x41
	opI64Const    = 0x42
	opMemoryGrow  = 0x40
	voidBlock     = 0x40
)

// wasi is the module of WASI preview 1.
const wasi = "wasi_snapshot_preview1"

type function struct {
	export          string
	params, results []byte
	body            []byte // without the end
}

type imported struct {
	module, name    string
	params, results []byte
}

// assembly is a module. Imported functions come first in the index space.
type assembly struct {
	imports []imported
	funcs   []function
	// memory is the limits of the memory, nil for none.
	memory     []byte
	hideMemory bool
	start      int // index of the start function, when startSet
	startSet   bool
}

func uleb(n uint64) []byte { return binary.AppendUvarint(nil, n) }

func sleb(n int64) []byte {
	var b []byte
	for {
		c := byte(n & 0x7f)
		n >>= 7
		if n == 0 && c&0x40 == 0 || n == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func vector(items ...[]byte) []byte {
	return append(uleb(uint64(len(items))), slices.Concat(items...)...)
}

func named(s string) []byte { return append(uleb(uint64(len(s))), s...) }

func section(id byte, body []byte) []byte {
	return slices.Concat([]byte{id}, uleb(uint64(len(body))), body)
}

func functionType(params, results []byte) []byte {
	return slices.Concat([]byte{0x60}, uleb(uint64(len(params))), params, uleb(uint64(len(results))), results)
}

func (a assembly) bytes() []byte {
	var typesOf, importsOf, funcsOf, exportsOf, code [][]byte
	for i, f := range a.imports {
		typesOf = append(typesOf, functionType(f.params, f.results))
		importsOf = append(importsOf, slices.Concat(named(f.module), named(f.name), []byte{0}, uleb(uint64(i))))
	}
	for i, f := range a.funcs {
		index := uleb(uint64(len(a.imports) + i))
		typesOf = append(typesOf, functionType(f.params, f.results))
		funcsOf = append(funcsOf, index)
		if f.export != "" {
			exportsOf = append(exportsOf, slices.Concat(named(f.export), []byte{0}, index))
		}
		body := slices.Concat([]byte{0}, f.body, []byte{opEnd})
		code = append(code, append(uleb(uint64(len(body))), body...))
	}
	if a.memory != nil && !a.hideMemory {
		exportsOf = append(exportsOf, append(named("memory"), 2, 0))
	}
	b := []byte{0, 'a', 's', 'm', 1, 0, 0, 0}
	b = append(b, section(1, vector(typesOf...))...)
	b = append(b, section(2, vector(importsOf...))...)
	b = append(b, section(3, vector(funcsOf...))...)
	if a.memory != nil {
		b = append(b, section(5, vector(a.memory))...)
	}
	b = append(b, section(7, vector(exportsOf...))...)
	if a.startSet {
		b = append(b, section(8, uleb(uint64(a.start)))...)
	}
	return append(b, section(10, vector(code...))...)
}

// pages is the limits of a memory of at least n pages.
func pages(n uint64) []byte { return append([]byte{0}, uleb(n)...) }

func i32Const(n int32) []byte { return append([]byte{opI32Const}, sleb(int64(n))...) }

func i64Const(n uint64) []byte { return append([]byte{opI64Const}, sleb(int64(n))...) }

// forever is a loop around body.
func forever(body ...byte) []byte {
	return slices.Concat([]byte{opLoop, voidBlock}, body, []byte{opBr, 0, opEnd})
}

// guest is a module that is a loader in form; load is the body of its
// cocache_load, which answers an i64.
func guest(load []byte) assembly {
	return assembly{
		memory: pages(1),
		funcs: []function{
			{export: "cocache_abi_v1"},
			{export: "cocache_alloc", params: []byte{i32}, results: []byte{i32}, body: i32Const(1024)},
			{export: "cocache_load", params: []byte{i32, i32}, results: []byte{i64}, body: load},
		},
	}
}

// with is the guest with a change.
func (a assembly) with(change func(a *assembly)) assembly {
	a.funcs = slices.Clone(a.funcs)
	change(&a)
	return a
}

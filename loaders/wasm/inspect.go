package wasm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/sdk/abi"
)

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
)

// signature is a function's type.
type signature struct{ params, results []api.ValueType }

func (s signature) String() string {
	return "(" + typeNames(s.params) + ") -> (" + typeNames(s.results) + ")"
}

func (s signature) equal(o signature) bool {
	return slices.Equal(s.params, o.params) && slices.Equal(s.results, o.results)
}

func typeNames(types []api.ValueType) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = api.ValueTypeName(t)
	}
	return strings.Join(names, ", ")
}

func signatureOf(d api.FunctionDefinition) signature {
	return signature{d.ParamTypes(), d.ResultTypes()}
}

// export is a function of the ABI that a module may have.
type export struct {
	name     string
	required bool
	signature
}

func exports() []export {
	load := signature{[]api.ValueType{i32, i32}, []api.ValueType{i64}}
	return []export{
		{abi.Marker, true, signature{}},
		{abi.Alloc, true, signature{[]api.ValueType{i32}, []api.ValueType{i32}}},
		{abi.Load, true, load},
		{abi.LoadAll, false, load},
		{abi.Initialize, false, signature{}},
	}
}

// inspect refuses a module that cannot be a loader, and says what to change. The
// runtime has the host modules already.
func inspect(r wazero.Runtime, mod wazero.CompiledModule, maxMemory int64) error {
	if err := inspectExports(mod.ExportedFunctions()); err != nil {
		return err
	}
	if err := inspectMemory(mod.ExportedMemories(), maxMemory); err != nil {
		return err
	}
	return inspectImports(r, mod.ImportedFunctions())
}

func inspectExports(have map[string]api.FunctionDefinition) error {
	if _, ok := have["_start"]; ok {
		return fmt.Errorf("the module exports _start, so it is a program and not a loader: build a reactor, " +
			"with -buildmode=c-shared (Go, TinyGo), crate-type cdylib (Rust) or -mexec-model=reactor (clang)")
	}
	for _, e := range exports() {
		d, ok := have[e.name]
		switch {
		case !ok && e.name == abi.Marker:
			return fmt.Errorf("the module does not export the function %s, which says that it was built for this ABI: export one", e.name)
		case !ok && e.required:
			return fmt.Errorf("the module does not export the function %s %v: export it", e.name, e.signature)
		case ok && !signatureOf(d).equal(e.signature):
			return fmt.Errorf("the module's export %s has the type %v: make it %v", e.name, signatureOf(d), e.signature)
		}
	}
	return nil
}

func inspectMemory(memories map[string]api.MemoryDefinition, most int64) error {
	m, ok := memories[abi.Memory]
	if !ok {
		return fmt.Errorf("the module does not export its memory: export it as %q (wasm-ld does unless it is told not to)", abi.Memory)
	}
	if _, _, imported := m.Import(); imported {
		return fmt.Errorf("the module imports its memory: build it with a memory of its own")
	}
	if need := int64(m.Min()) * pageSize; need > most {
		return fmt.Errorf("the module declares a memory of %s, more than %s = %s: raise the limit or build it with less",
			sizeWords(need), limitMemory, sizeWords(most))
	}
	return nil
}

// inspectImports compares with what the runtime offers, which is what would be
// linked.
func inspectImports(r wazero.Runtime, imports []api.FunctionDefinition) error {
	// Listing a host module makes a new map, and a module may import the same
	// function any number of times.
	offered := map[string]map[string]api.FunctionDefinition{}
	for _, d := range imports {
		module, name, _ := d.Import()
		if _, listed := offered[module]; !listed {
			offered[module] = functionsOf(r, module)
		}
		want, ok := offered[module][name]
		if !ok {
			return fmt.Errorf("the module imports the function %s, which no loader may use: build it without", loader.Clean(module+"."+name))
		}
		if !signatureOf(d).equal(signatureOf(want)) {
			return fmt.Errorf("the module imports %s.%s with the type %v: it is %v", module, name, signatureOf(d), signatureOf(want))
		}
	}
	return nil
}

// functionsOf is what a host module exports; nothing when there is none of that
// name.
func functionsOf(r wazero.Runtime, module string) map[string]api.FunctionDefinition {
	if host := r.Module(module); host != nil {
		return host.ExportedFunctionDefinitions()
	}
	return nil
}

// oneLine is an error of the engine as one clean line.
func oneLine(err error) string { return loader.Clean(err.Error()) }

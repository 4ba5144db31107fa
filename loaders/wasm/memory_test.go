package wasm

import (
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// fakeMemory is the memory of a module that is good for nothing else.
func fakeMemory(t *testing.T) api.Memory {
	t.Helper()
	r := wazero.NewRuntime(t.Context())
	t.Cleanup(func() { _ = r.Close(t.Context()) })
	mod, err := r.Instantiate(t.Context(), good().bytes())
	if err != nil {
		t.Fatal(err)
	}
	return mod.Memory()
}

func TestMemoryBoundsAndFrees(t *testing.T) {
	m := &memory{limit: 3 * pageSize}
	m.Allocate(0, 4<<30)
	if b := m.Reallocate(3 * pageSize); len(b) != 3*pageSize || m.refused {
		t.Errorf("%d bytes, refused %v", len(b), m.refused)
	}
	if m.Reallocate(3*pageSize+1) != nil || !m.refused {
		t.Error("one byte over the limit is given")
	}
	m.Free()
	m.Free()
}

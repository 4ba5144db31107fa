package wasm

import "testing"

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

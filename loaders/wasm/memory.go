package wasm

import "github.com/tetratelabs/wazero/experimental"

// memory is the linear memory of one instance. It bounds the guest, and it
// remembers that it refused: a guest that dies for want of memory usually
// traps or exits, and the reader deserves to know why.
//
// It is reserved in one piece, so that growing neither copies nor needs the old
// and the new one at the same time, and what the guest did not touch costs
// nothing.
type memory struct {
	limit   uint64
	bytes   []byte
	free    func()
	refused bool
}

var (
	_ experimental.MemoryAllocator = (*memory)(nil)
	_ experimental.LinearMemory    = (*memory)(nil)
)

// Allocate implements experimental.MemoryAllocator. A module has one memory.
func (m *memory) Allocate(_, most uint64) experimental.LinearMemory {
	m.bytes, m.free = reserve(min(m.limit, most))
	return m
}

// Reallocate implements experimental.LinearMemory.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.bytes)) {
		m.refused = true
		return nil
	}
	return m.bytes[:size:size]
}

// Free implements experimental.LinearMemory. The engine does not call it for a
// module that it closed at a deadline, so the instance calls it too.
func (m *memory) Free() {
	if m.free != nil {
		m.free()
	}
	m.bytes, m.free = nil, nil
}

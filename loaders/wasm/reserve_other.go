//go:build !unix

package wasm

// reserve takes all of the memory from the Go heap.
func reserve(size uint64) (bytes []byte, free func()) { return make([]byte, size), nil }

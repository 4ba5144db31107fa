//go:build unix

package wasm

import "syscall"

// reserve takes address space that the kernel fills, zeroed, page by page as
// it is touched, and gives it back at once when it is freed. Where the kernel
// refuses, the Go heap has to do.
func reserve(size uint64) (bytes []byte, free func()) {
	b, err := syscall.Mmap(-1, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return make([]byte, size), nil
	}
	return b, func() { _ = syscall.Munmap(b) }
}

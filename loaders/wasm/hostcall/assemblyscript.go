package hostcall

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/tetratelabs/wazero/api"

	"github.com/cocache/cocache/runtime/loader"
)

// assemblyScriptFunctions is what AssemblyScript's compiler imports by itself.
func assemblyScriptFunctions() []function {
	return []function{
		{"env", "abort", types(4), nil, asAbort},
		{"env", "seed", nil, []api.ValueType{f64}, asSeed},
		{"env", "Date.now", nil, []api.ValueType{f64}, asDateNow},
		{"env", "trace", []api.ValueType{i32, i32, f64, f64, f64, f64, f64}, nil, asTrace},
	}
}

// asAbort ends the call: this is how AssemblyScript throws.
func asAbort(_ *Call, mem api.Memory, stack []uint64) {
	text, file := asString(mem, uint32(stack[0])), asString(mem, uint32(stack[1]))
	if text == "" {
		text = "abort"
	}
	panic(loader.Failf("%s (%s:%d:%d)", text, file, uint32(stack[2]), uint32(stack[3])))
}

func asSeed(_ *Call, _ api.Memory, stack []uint64) {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	stack[0] = api.EncodeF64(float64(binary.LittleEndian.Uint64(b[:]) >> 11))
}

func asDateNow(_ *Call, _ api.Memory, stack []uint64) {
	stack[0] = api.EncodeF64(float64(time.Now().UnixMilli()))
}

func asTrace(c *Call, mem api.Memory, stack []uint64) {
	var b strings.Builder
	b.WriteString(asString(mem, uint32(stack[0])))
	for i := range min(uint32(stack[1]), 5) {
		fmt.Fprintf(&b, " %v", api.DecodeF64(stack[2+i]))
	}
	c.log.write(c.ctx, slog.LevelInfo, b.String())
}

// asString reads a string object: UTF-16, its length in bytes in the four
// before it. It reads no more than a message may have, and answers "" for a
// pointer that is none.
func asString(mem api.Memory, ptr uint32) string {
	if ptr < 4 {
		return ""
	}
	size, ok := mem.ReadUint32Le(ptr - 4)
	if !ok {
		return ""
	}
	b, ok := mem.Read(ptr, min(size, loader.MaxMessage)&^1)
	if !ok {
		return ""
	}
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return string(utf16.Decode(units))
}

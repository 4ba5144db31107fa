package hostcall

import (
	"encoding/binary"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
)

const wasiModule = "wasi_snapshot_preview1"

// Error numbers of WASI preview 1.
const (
	errnoSuccess = 0
	errnoBadf    = 8
	errnoFault   = 21
	errnoInval   = 28
	errnoSpipe   = 70
)

// wasiFunctions is the part of WASI preview 1 that Go, TinyGo, Rust and C
// guests import although they use none of it. There are no files, arguments or
// environment; clocks and random are real; standard output and error are lines
// of the log. It is written here and not the engine's, whose sleep does not end
// with the call and which would hand out more.
func wasiFunctions() []function {
	fn := func(name string, params int, f func(c *Call, mem api.Memory, a []uint32) int32) function {
		return function{wasiModule, name, types(params), types(1), i32s(f)}
	}
	return []function{
		fn("args_get", 2, nothing),
		fn("args_sizes_get", 2, zeroSizes),
		fn("environ_get", 2, nothing),
		fn("environ_sizes_get", 2, zeroSizes),
		{wasiModule, "sched_yield", nil, types(1), schedYield},
		fn("random_get", 2, wasiRandom),
		fn("clock_res_get", 2, clockRes),
		{wasiModule, "clock_time_get", []api.ValueType{i32, i64, i32}, types(1), clockTime},
		fn("poll_oneoff", 4, pollOneoff),
		fn("fd_write", 4, fdWrite),
		fn("fd_read", 4, fdRead),
		fn("fd_close", 1, fdClose),
		fn("fd_fdstat_get", 2, fdstatGet),
		fn("fd_fdstat_set_flags", 2, fdClose),
		fn("fd_prestat_get", 2, noFile),
		fn("fd_prestat_dir_name", 3, noFile),
		{wasiModule, "fd_seek", []api.ValueType{i32, i64, i32, i32}, types(1), fdSeek},
		{wasiModule, "proc_exit", types(1), nil, procExit},
	}
}

func schedYield(_ *Call, _ api.Memory, stack []uint64) { stack[0] = errnoSuccess }

func procExit(_ *Call, _ api.Memory, stack []uint64) { panic(sys.NewExitError(uint32(stack[0]))) }

func nothing(*Call, api.Memory, []uint32) int32 { return errnoSuccess }

func noFile(*Call, api.Memory, []uint32) int32 { return errnoBadf }

// zeroSizes answers that there are none, of no size.
func zeroSizes(_ *Call, mem api.Memory, a []uint32) int32 {
	return errnoOf(mem.WriteUint32Le(a[0], 0) && mem.WriteUint32Le(a[1], 0))
}

func errnoOf(ok bool) int32 {
	if !ok {
		return errnoFault
	}
	return errnoSuccess
}

func wasiRandom(c *Call, mem api.Memory, a []uint32) int32 {
	return errnoOf(fillRandom(c, mem, a[0], a[1]))
}

// The clocks there are.
const (
	clockRealtime  = 0
	clockMonotonic = 1
)

// now reads a clock in nanoseconds.
func (c *Call) now(clock uint32) (ns int64, ok bool) {
	switch clock {
	case clockRealtime:
		return time.Now().UnixNano(), true
	case clockMonotonic:
		return int64(time.Since(c.host.epoch)), true
	}
	return 0, false
}

func clockTime(c *Call, mem api.Memory, stack []uint64) {
	ns, ok := c.now(uint32(stack[0]))
	if !ok {
		stack[0] = errnoInval
		return
	}
	stack[0] = api.EncodeI32(errnoOf(mem.WriteUint64Le(uint32(stack[2]), uint64(ns))))
}

func clockRes(c *Call, mem api.Memory, a []uint32) int32 {
	if _, ok := c.now(a[0]); !ok {
		return errnoInval
	}
	return errnoOf(mem.WriteUint64Le(a[1], 1))
}

// isStdio says whether fd is one of the three that are always open.
func isStdio(fd uint32) bool { return fd <= 2 }

func fdClose(_ *Call, _ api.Memory, a []uint32) int32 {
	if !isStdio(a[0]) {
		return errnoBadf
	}
	return errnoSuccess
}

func fdSeek(_ *Call, _ api.Memory, stack []uint64) {
	if isStdio(uint32(stack[0])) {
		stack[0] = errnoSpipe
		return
	}
	stack[0] = errnoBadf
}

// fdRead answers the end of an empty standard input.
func fdRead(_ *Call, mem api.Memory, a []uint32) int32 {
	if a[0] != 0 {
		return errnoBadf
	}
	return errnoOf(mem.WriteUint32Le(a[3], 0))
}

const (
	fdstatSize         = 24
	fileTypeCharDevice = 2
	rightsReadWrite    = 1<<1 | 1<<6
)

// fdstatGet says that the standard streams are terminals without a seek, so
// that a C library flushes them at line ends.
func fdstatGet(_ *Call, mem api.Memory, a []uint32) int32 {
	if !isStdio(a[0]) {
		return errnoBadf
	}
	var b [fdstatSize]byte
	b[0] = fileTypeCharDevice
	binary.LittleEndian.PutUint64(b[8:], rightsReadWrite)
	return errnoOf(mem.Write(a[1], b[:]))
}

const (
	// maxVectors is how many buffers one fd_write may name.
	maxVectors = 1024
	// maxWrite is how many bytes one fd_write takes; a guest writes the rest
	// with its next one.
	maxWrite = 64 << 10
)

func fdWrite(c *Call, mem api.Memory, a []uint32) int32 {
	fd, vectors, count, written := a[0], a[1], a[2], a[3]
	if fd != 1 && fd != 2 {
		return errnoBadf
	}
	if count > maxVectors {
		return errnoInval
	}
	list, ok := mem.Read(vectors, count*8)
	if !ok {
		return errnoFault
	}
	var total uint32
	for ; len(list) > 0 && total < maxWrite; list = list[8:] {
		size := min(binary.LittleEndian.Uint32(list[4:]), maxWrite-total)
		b, ok := mem.Read(binary.LittleEndian.Uint32(list), size)
		if !ok {
			return errnoFault
		}
		c.log.stdio(c.ctx, fd, b)
		total += size
	}
	return errnoOf(mem.WriteUint32Le(written, total))
}

package hostcall

import (
	"crypto/rand"
	"log/slog"
	"math"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/cocache/cocache/sdk/abi"
)

// ownFunctions is the host module cocache.
func ownFunctions() []function {
	fn := func(name string, params int, f func(c *Call, mem api.Memory, a []uint32) int32) function {
		return function{abi.HostModule, name, types(params), types(1), i32s(f)}
	}
	return []function{
		{abi.HostModule, "log", types(3), nil, hostLog},
		fn("setting", 4, hostSetting),
		fn("secret", 4, hostSecret),
		{abi.HostModule, "now_ms", nil, []api.ValueType{i64}, hostNow},
		fn("random", 2, hostRandom),
		fn("traceparent", 2, hostTraceparent),
		fn("fetch", 2, hostFetch),
		fn("get", 4, hostGet),
		fn("info", 3, hostInfo),
		fn("read", 3, hostRead),
		fn("close", 1, hostClose),
	}
}

// readText copies a text of the guest.
func readText(mem api.Memory, ptr, size uint32) (string, bool) {
	b, ok := mem.Read(ptr, size)
	return string(b), ok
}

// answer gives text to the guest if it fits into its buffer, and says how long
// it is.
func answer(mem api.Memory, text string, buf, room uint32) int32 {
	if len(text) > math.MaxInt32 {
		return abi.ErrLimit
	}
	if uint64(len(text)) > uint64(room) {
		return int32(len(text))
	}
	if !mem.WriteString(buf, text) {
		return abi.ErrBadArgument
	}
	return int32(len(text))
}

func hostLog(c *Call, mem api.Memory, stack []uint64) {
	size := min(uint32(stack[2]), maxLogLine)
	if text, ok := readText(mem, uint32(stack[1]), size); ok {
		c.log.write(c.ctx, logLevel(uint32(stack[0])), text)
	}
}

func logLevel(l uint32) slog.Level {
	switch l {
	case abi.LevelDebug:
		return slog.LevelDebug
	case abi.LevelInfo:
		return slog.LevelInfo
	case abi.LevelWarn:
		return slog.LevelWarn
	}
	return slog.LevelError
}

func hostSetting(c *Call, mem api.Memory, a []uint32) int32 {
	return lookUp(c.host.capabilities.Settings, mem, a, abi.ErrNotFound)
}

// hostSecret does not tell a secret that is not exposed from one that does not
// exist.
func hostSecret(c *Call, mem api.Memory, a []uint32) int32 {
	return lookUp(c.host.capabilities.Secrets, mem, a, abi.ErrDenied)
}

// maxName is how long a name of a setting, secret or namespace may be before
// it is not even looked up.
const maxName = 4096

func lookUp(texts map[string]string, mem api.Memory, a []uint32, missing int32) int32 {
	name, ok := readText(mem, a[0], min(a[1], maxName+1))
	if !ok {
		return abi.ErrBadArgument
	}
	text, ok := texts[name]
	if !ok {
		return missing
	}
	return answer(mem, text, a[2], a[3])
}

func hostNow(_ *Call, _ api.Memory, stack []uint64) {
	stack[0] = api.EncodeI64(time.Now().UnixMilli())
}

func hostRandom(c *Call, mem api.Memory, a []uint32) int32 {
	if !fillRandom(c, mem, a[0], a[1]) {
		return abi.ErrBadArgument
	}
	return 0
}

// fillRandom works in pieces: a guest may ask for all of its memory, and the
// end of the call must be able to come between.
func fillRandom(c *Call, mem api.Memory, ptr, size uint32) bool {
	const piece = 64 << 10
	b, ok := mem.Read(ptr, size)
	for len(b) > 0 {
		if c.ctx.Err() != nil {
			panic(errOver)
		}
		n := min(len(b), piece)
		_, _ = rand.Read(b[:n]) // never fails
		b = b[n:]
	}
	return ok
}

// hostTraceparent answers that there is none: loads are not traced yet.
func hostTraceparent(*Call, api.Memory, []uint32) int32 { return abi.ErrNotFound }

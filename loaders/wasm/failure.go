package wasm

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/sys"

	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/sdk/abi"
)

// The settings that an error names.
const (
	limitTimeout = "loader.limits.timeout"
	limitMemory  = "loader.limits.max-memory"
	limitOutput  = "loader.limits.max-output-bytes"
)

func limited(limit, value, format string, args ...any) *loader.Error {
	return &loader.Error{Kind: loader.Limited, Limit: limit, Value: value, Message: loader.Clean(fmt.Sprintf(format, args...))}
}

// failure names what ended a call that err came out of. The caller's context
// goes first, then the limits, then what the guest did: a guest that trips over
// the end of its time must not hide it.
func (c *call) failure(err error) error {
	if err := c.parent.Err(); err != nil {
		return err
	}
	if c.ctx.Err() != nil {
		return &loader.Error{Kind: loader.TimedOut, Limit: limitTimeout, Value: durationWords(c.spec.Timeout)}
	}
	var own *loader.Error
	if errors.As(err, &own) {
		return own
	}
	if c.memory != nil && c.memory.refused {
		return c.outOfMemory()
	}
	var frame *abi.FrameError
	if errors.As(err, &frame) {
		return loader.Failf("%v", frame)
	}
	var exit *sys.ExitError
	if errors.As(err, &exit) {
		return loader.Failf("the guest exited with code %d", exit.ExitCode())
	}
	return loader.Failf("%s", trapLine(err.Error()))
}

func (c *call) outOfMemory() *loader.Error {
	return limited(limitMemory, sizeWords(c.spec.MaxMemory), "the guest is out of memory")
}

// trapLine makes one line of the engine's report: what happened, and in which
// function.
func trapLine(report string) string {
	what, trace, _ := strings.Cut(report, "\nwasm stack trace:\n")
	what, _, _ = strings.Cut(what, "\n")
	what = strings.TrimPrefix(what, "wasm error: ")
	what = strings.TrimSuffix(what, " (recovered by wazero)")
	frame, _, _ := strings.Cut(strings.TrimSpace(trace), "\n")
	if name := functionName(frame); name != "" {
		return "trap: " + what + " in " + name
	}
	return "trap: " + what
}

// functionName takes the name out of `.name(params) results`. A name may have
// parentheses of its own, as those of Go's methods do.
func functionName(frame string) string {
	if i := strings.LastIndex(frame, ") ("); i >= 0 {
		frame = frame[:i+1]
	}
	i := strings.LastIndexByte(frame, '(')
	return strings.TrimPrefix(frame[:max(i, 0)], ".")
}

// sizeWords writes bytes as the configuration does.
func sizeWords(n int64) string {
	units := [...]string{"B", "KiB", "MiB", "GiB"}
	i := 0
	for i < len(units)-1 && n != 0 && n%1024 == 0 {
		n /= 1024
		i++
	}
	return fmt.Sprintf("%d%s", n, units[i])
}

// durationWords writes a duration as the configuration does: 2m, not 2m0s.
func durationWords(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

package hostcall

import (
	"bytes"
	"context"
	"log/slog"

	"github.com/cocache/cocache/runtime/loader"
)

const (
	// maxLogLines is how many lines a call may log.
	maxLogLines = 200
	// maxLogLine is how much of a line is read, in bytes: one more than is
	// kept, so that loader.Clean sees that it has to cut.
	maxLogLine = loader.MaxMessage + 1
)

// guestLog takes a guest's lines, from the host function log and from its
// standard output and error. A guest may log, it may not flood.
type guestLog struct {
	to    *slog.Logger
	lines int
	// part holds the unfinished line of standard output and of standard error.
	part [2][]byte
}

// write takes one line of the guest.
func (l *guestLog) write(ctx context.Context, level slog.Level, line string) {
	l.lines++
	switch {
	case l.lines <= maxLogLines:
		l.to.Log(ctx, level, loader.Clean(line))
	case l.lines == maxLogLines+1:
		l.to.Log(ctx, slog.LevelWarn, "the loader logs too much: its further lines of this call are left out")
	}
}

// stdio takes bytes of standard output or error and logs the lines that end in
// them.
func (l *guestLog) stdio(ctx context.Context, fd uint32, b []byte) {
	for len(b) > 0 {
		line, rest, ended := bytes.Cut(b, []byte{'\n'})
		room := maxLogLine - len(l.part[fd-1])
		l.part[fd-1] = append(l.part[fd-1], line[:min(len(line), room)]...)
		if ended {
			l.endLine(ctx, fd)
		}
		b = rest
	}
}

func (l *guestLog) endLine(ctx context.Context, fd uint32) {
	part := l.part[fd-1]
	l.part[fd-1] = part[:0]
	level := slog.LevelInfo
	if fd == 2 {
		level = slog.LevelWarn
	}
	if len(part) > 0 {
		l.write(ctx, level, string(part))
	}
}

// flush logs what no line break ended.
func (l *guestLog) flush(ctx context.Context) {
	l.endLine(ctx, 1)
	l.endLine(ctx, 2)
}

package wire

import (
	"bytes"
	"strconv"
)

// words reads a client's stream of commands, arrays of bulk strings, as it
// comes in pieces.
type words struct{ rest []byte }

// read returns the commands that p completes.
func (r *words) read(p []byte) (commands [][]string) {
	r.rest = append(r.rest, p...)
	for {
		command, size := first(r.rest)
		if size == 0 {
			return commands
		}
		r.rest = r.rest[size:]
		commands = append(commands, command)
	}
}

// first is the command that b begins with, and its size; 0 while it is not
// complete.
func first(b []byte) (command []string, size int) {
	count, at := number(b, 0, '*')
	for range count {
		length, from := number(b, at, '$')
		if from == 0 || len(b) < from+length+2 {
			return nil, 0
		}
		command = append(command, string(b[from:from+length]))
		at = from + length + 2
	}
	return command, at
}

// number reads a line of mark and a number at b[at:]; next is 0 when it is not
// there yet.
func number(b []byte, at int, mark byte) (n, next int) {
	end := bytes.Index(b[min(at, len(b)):], []byte("\r\n"))
	if end < 1 || b[at] != mark {
		return 0, 0
	}
	n, err := strconv.Atoi(string(b[at+1 : at+end]))
	if err != nil {
		return 0, 0
	}
	return n, at + end + 2
}

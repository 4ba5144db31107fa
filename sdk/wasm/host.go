//go:build wasip1

package wasm

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"unsafe"

	"github.com/cocache/cocache/sdk/abi"
)

//go:wasmimport cocache log
func hostLog(level uint32, ptr unsafe.Pointer, size uint32)

//go:wasmimport cocache setting
func hostSetting(name unsafe.Pointer, size uint32, buf unsafe.Pointer, room uint32) int32

//go:wasmimport cocache secret
func hostSecret(name unsafe.Pointer, size uint32, buf unsafe.Pointer, room uint32) int32

//go:wasmimport cocache fetch
func hostFetch(ptr unsafe.Pointer, size uint32) int32

//go:wasmimport cocache get
func hostGet(namespace unsafe.Pointer, namespaceSize uint32, key unsafe.Pointer, keySize uint32) int32

//go:wasmimport cocache info
func hostInfo(handle int32, buf unsafe.Pointer, room uint32) int32

//go:wasmimport cocache read
func hostRead(handle int32, buf unsafe.Pointer, room uint32) int32

//go:wasmimport cocache close
func hostClose(handle int32) int32

// What the host may answer.
var (
	ErrNotFound    = errors.New("not found")
	ErrDenied      = errors.New("not allowed by the namespace's configuration")
	ErrLimit       = errors.New("a limit of the namespace is reached")
	ErrDeadline    = errors.New("deadline exceeded")
	ErrBadArgument = errors.New("bad argument")
	ErrFailed      = errors.New("failed")
	ErrRecursion   = errors.New("a namespace would read itself")
)

func hostError(code int32) error {
	switch code {
	case abi.ErrNotFound:
		return ErrNotFound
	case abi.ErrDenied:
		return ErrDenied
	case abi.ErrLimit:
		return ErrLimit
	case abi.ErrDeadline:
		return ErrDeadline
	case abi.ErrBadArgument:
		return ErrBadArgument
	case abi.ErrRecursion:
		return ErrRecursion
	}
	return ErrFailed
}

// Level of a line in the namespace's log.
type Level uint32

// The levels.
const (
	LevelDebug = Level(abi.LevelDebug)
	LevelInfo  = Level(abi.LevelInfo)
	LevelWarn  = Level(abi.LevelWarn)
	LevelError = Level(abi.LevelError)
)

// Log writes one line to the namespace's log.
func Log(level Level, line string) { hostLog(uint32(level), text(line), uint32(len(line))) }

// Setting is a text of the namespace's configuration.
func Setting(name string) (string, bool) {
	s, err := fill(func(buf unsafe.Pointer, room uint32) int32 {
		return hostSetting(text(name), uint32(len(name)), buf, room)
	})
	return s, err == nil
}

// Secret is a secret that the configuration exposes to the loader, else
// ErrDenied.
func Secret(name string) (string, error) {
	return fill(func(buf unsafe.Pointer, room uint32) int32 {
		return hostSecret(text(name), uint32(len(name)), buf, room)
	})
}

// Request is an HTTP request.
type Request struct {
	Method string // GET when empty
	URL    string
	Header [][2]string
	Body   []byte
}

// Pending is a request or a read that the host performs. Close it when its
// bytes are not wanted; the end of the call closes it too.
type Pending struct{ handle int32 }

// Response is a whole HTTP response.
type Response struct {
	Status int
	URL    string // the one that answered, after redirects
	Header [][2]string
	Body   []byte
}

// Fetch performs a request.
func Fetch(r Request) (*Response, error) {
	p, err := StartFetch(r)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Response()
}

// StartFetch starts a request and returns at once, so that several can run side
// by side.
func StartFetch(r Request) (*Pending, error) {
	frame := r.frame()
	h := hostFetch(text(frame), uint32(len(frame)))
	if h < 0 {
		return nil, hostError(h)
	}
	return &Pending{h}, nil
}

func (r *Request) frame() string {
	var b strings.Builder
	method := r.Method
	if method == "" {
		method = "GET"
	}
	b.WriteString(method + " " + r.URL + "\n")
	for _, h := range r.Header {
		b.WriteString(h[0] + ": " + h[1] + "\n")
	}
	b.WriteByte('\n')
	b.Write(r.Body)
	return b.String()
}

// Response waits for the response of a request.
func (p *Pending) Response() (*Response, error) {
	head, err := p.info()
	if err != nil {
		return nil, err
	}
	first, rest, _ := strings.Cut(head, "\n")
	status, url, _ := strings.Cut(first, " ")
	r := &Response{URL: url, Header: fields(rest)}
	if r.Status, err = strconv.Atoi(status); err != nil {
		return nil, ErrFailed
	}
	r.Body, err = io.ReadAll(p)
	return r, err
}

// fields reads lines of `name: value`.
func fields(s string) [][2]string {
	var out [][2]string
	for line := range strings.Lines(s) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		out = append(out, [2]string{name, value})
	}
	return out
}

// Get reads a key of another namespace that the configuration allows;
// ErrNotFound when it does not exist there.
func Get(namespace, key string) ([]byte, error) {
	h := hostGet(text(namespace), uint32(len(namespace)), text(key), uint32(len(key)))
	if h < 0 {
		return nil, hostError(h)
	}
	p := &Pending{h}
	defer p.Close()
	return io.ReadAll(p)
}

func (p *Pending) info() (string, error) {
	return fill(func(buf unsafe.Pointer, room uint32) int32 { return hostInfo(p.handle, buf, room) })
}

// Read implements io.Reader over the body or the value.
func (p *Pending) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n := hostRead(p.handle, unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b)))
	switch {
	case n < 0:
		return 0, hostError(n)
	case n == 0:
		return 0, io.EOF
	}
	return int(n), nil
}

// Close lets go of it.
func (p *Pending) Close() error {
	if n := hostClose(p.handle); n < 0 {
		return hostError(n)
	}
	return nil
}

func text(s string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(s)) }

// fill calls a host function that fills a buffer, with a larger one when the
// first is too small.
func fill(call func(buf unsafe.Pointer, room uint32) int32) (string, error) {
	buf := make([]byte, 512)
	for {
		n := call(unsafe.Pointer(unsafe.SliceData(buf)), uint32(len(buf)))
		if n < 0 {
			return "", hostError(n)
		}
		if int(n) <= len(buf) {
			return string(buf[:n]), nil
		}
		buf = make([]byte, n)
	}
}

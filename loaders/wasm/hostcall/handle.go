package hostcall

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero/api"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/sdk/abi"
)

const (
	// maxHandles is how many handles a call may have open.
	maxHandles = 64
	// maxFetch bounds one request, body included, in bytes: the host holds a
	// copy while it is under way.
	maxFetch = 1 << 20
)

// handle is something that a guest reads: the response of a fetch, or another
// namespace's value.
type handle struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when the fields below are set
	info   string
	rest   []byte // what read has not given away yet
	err    error
	logged bool // err is in the log
}

// handles are those of one call, which dies with them.
type handles struct {
	open    map[int32]*handle
	last    int32
	budget  *capability.FetchBudget // one for all fetches of the call
	running sync.WaitGroup
}

func (h *handles) full() bool { return len(h.open) >= maxHandles || h.last == math.MaxInt32 }

// add gives a handle its number.
func (h *handles) add(x *handle) int32 {
	if h.open == nil {
		h.open = map[int32]*handle{}
	}
	h.last++
	h.open[h.last] = x
	return h.last
}

// closeAll ends the fetches that run and waits for them.
func (h *handles) closeAll() {
	for _, x := range h.open {
		x.cancel()
	}
	h.running.Wait()
	h.open = nil
}

// hostFetch starts a request and does not wait for it, so that a guest can have
// several under way.
func hostFetch(c *Call, mem api.Memory, a []uint32) int32 {
	if c.handles.full() || a[1] > maxFetch {
		return abi.ErrLimit
	}
	b, ok := mem.Read(a[0], a[1])
	if !ok {
		return abi.ErrBadArgument
	}
	req, ok := parseFetch(string(b))
	if !ok {
		return abi.ErrBadArgument
	}
	return c.handles.fetch(c.ctx, c.host.capabilities.Fetch, req)
}

func (h *handles) fetch(ctx context.Context, f *capability.Fetcher, req capability.FetchRequest) int32 {
	if h.budget == nil {
		h.budget = f.Begin()
	}
	budget := h.budget
	ctx, cancel := context.WithCancel(ctx)
	x := &handle{cancel: cancel, done: make(chan struct{})}
	h.running.Go(func() {
		defer close(x.done)
		resp, err := budget.Do(ctx, req)
		x.info, x.rest, x.err = fetchInfo(resp), resp.Body, err
	})
	return h.add(x)
}

// parseFetch reads `METHOD SP url LF (name: value LF)* LF body`.
func parseFetch(s string) (r capability.FetchRequest, ok bool) {
	line, rest, ok := strings.Cut(s, "\n")
	if !ok {
		return r, false
	}
	if r.Method, r.URL, ok = strings.Cut(line, " "); !ok {
		return r, false
	}
	r.Header = http.Header{}
	for {
		if line, rest, ok = strings.Cut(rest, "\n"); !ok {
			return r, false
		}
		if line == "" {
			r.Body = []byte(rest)
			return r, true
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return r, false
		}
		r.Header.Add(name, strings.TrimSpace(value))
	}
}

// fetchInfo writes `STATUS SP final-URL LF (name: value LF)*`. The host's HTTP
// client has refused line breaks in names and values.
func fetchInfo(r capability.FetchResponse) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s\n", r.Status, r.URL)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, v := range r.Header[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
	}
	return b.String()
}

// hostGet reads another namespace's value. It waits, since the answer says
// whether there is one.
func hostGet(c *Call, mem api.Memory, a []uint32) int32 {
	namespace, ok := readText(mem, a[0], min(a[1], maxName+1))
	key, ok2 := readText(mem, a[2], a[3])
	if !ok || !ok2 {
		return abi.ErrBadArgument
	}
	if c.host.capabilities.Namespaces == nil {
		return abi.ErrDenied
	}
	if c.handles.full() {
		return abi.ErrLimit
	}
	v, found, err := c.host.capabilities.Namespaces.Read(c.ctx, namespace, key)
	if err != nil {
		return c.refusal("get "+namespace, err)
	}
	if !found {
		return abi.ErrNotFound
	}
	done := make(chan struct{})
	close(done)
	return c.handles.add(&handle{cancel: func() {}, done: done, info: getInfo(v), rest: []byte(v.Value)})
}

func getInfo(v capability.Read) string {
	ttl := v.TTL.String()
	if v.TTL == loader.Forever {
		ttl = "forever"
	}
	return fmt.Sprintf("ttl: %s\nversion: %d\n", ttl, v.Version)
}

// wait is a handle whose result is there, or what to answer instead.
func (c *Call) wait(id uint32) (*handle, int32) {
	h, ok := c.handles.open[int32(id)]
	if !ok {
		return nil, abi.ErrBadArgument
	}
	select {
	case <-h.done:
	case <-c.ctx.Done():
		panic(errOver)
	}
	if h.err == nil {
		return h, 0
	}
	if h.logged {
		return nil, refusalNumber(h.err)
	}
	h.logged = true
	return nil, c.refusal("fetch", h.err)
}

// refusal says in numbers why something failed. The guest's author gets the
// words in the log, since a number alone does not say what to change.
func (c *Call) refusal(what string, err error) int32 {
	if c.ctx.Err() != nil {
		panic(errOver)
	}
	c.log.write(c.ctx, slog.LevelWarn, what+" failed: "+err.Error())
	return refusalNumber(err)
}

func refusalNumber(err error) int32 {
	var limit *loader.Error
	switch {
	case errors.Is(err, capability.ErrDenied):
		return abi.ErrDenied
	case errors.Is(err, capability.ErrBadRequest):
		return abi.ErrBadArgument
	case errors.As(err, &limit) && limit.Kind == loader.Limited:
		return abi.ErrLimit
	case errors.Is(err, context.DeadlineExceeded):
		return abi.ErrDeadline
	}
	return abi.ErrFailed
}

func hostInfo(c *Call, mem api.Memory, a []uint32) int32 {
	h, refused := c.wait(a[0])
	if h == nil {
		return refused
	}
	return answer(mem, h.info, a[1], a[2])
}

// hostRead gives away the next bytes, as many as there is room for.
func hostRead(c *Call, mem api.Memory, a []uint32) int32 {
	h, refused := c.wait(a[0])
	if h == nil {
		return refused
	}
	n := min(len(h.rest), int(min(a[2], math.MaxInt32)))
	if !mem.Write(a[1], h.rest[:n]) {
		return abi.ErrBadArgument
	}
	h.rest = h.rest[n:]
	return int32(n)
}

func hostClose(c *Call, _ api.Memory, a []uint32) int32 {
	h, ok := c.handles.open[int32(a[0])]
	if !ok {
		return abi.ErrBadArgument
	}
	h.cancel()
	delete(c.handles.open, int32(a[0]))
	return 0
}

package script

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// origin is an HTTP source in this process. It reads its value when it is
// asked and answers when the script lets it.
type origin struct {
	addr   string
	mu     sync.Mutex
	body   string        // guarded by mu
	status int           // guarded by mu
	calls  int           // guarded by mu
	holds  bool          // guarded by mu; new calls wait at the gate
	gate   chan struct{} // guarded by mu; closed to release those that wait there
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.calls++
	body, status, holds, gate := o.body, o.status, o.holds, o.gate
	o.mu.Unlock()
	if holds {
		select {
		case <-gate:
		case <-r.Context().Done():
			return
		}
	}
	w.WriteHeader(status)
	io.WriteString(w, body)
}

func originCommand(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) >= 1, "usage: origin NAME [WORD…]")
	s := stateOf(ts)
	o := s.origins[args[0]]
	if o == nil {
		want(ts, len(args) == 1, "no origin %s", args[0])
		s.origins[args[0]] = startOrigin(ts, args[0])
		return
	}
	o.obey(ts, args[1:])
}

func startOrigin(ts *testscript.TestScript, name string) *origin {
	o := &origin{body: `"v1"`, status: http.StatusOK, gate: make(chan struct{})}
	server := httptest.NewServer(o)
	ts.Defer(server.Close)
	ts.Defer(o.release)
	o.addr = strings.TrimPrefix(server.URL, "http://")
	ts.Setenv(name, o.addr)
	return o
}

func (o *origin) obey(ts *testscript.TestScript, words []string) {
	value := ""
	if len(words) == 2 {
		value = words[1]
	}
	switch words[0] {
	case "set":
		o.change(func() { o.body = unescape(ts, value) })
	case "status":
		o.change(func() { o.status = number(ts, value) })
	case "hold":
		o.change(func() { o.holds = true })
	case "pass": // the new ones; those that wait go on waiting
		o.change(func() { o.holds = false })
	case "release":
		o.release()
	case "calls":
		n := o.count()
		want(ts, n == number(ts, value), "the origin was called %d times, want %s", n, value)
	case "wait":
		_, err := eventually(10*time.Second, func() error {
			if n := o.count(); n < number(ts, value) {
				return fmt.Errorf("the origin was called %d times, want %s", n, value)
			}
			return nil
		})
		ts.Check(err)
	default:
		ts.Fatalf("unknown word %s", words[0])
	}
}

func (o *origin) change(field func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	field()
}

// release lets those that wait go, and the new ones pass.
func (o *origin) release() {
	o.change(func() {
		close(o.gate)
		o.gate, o.holds = make(chan struct{}), false
	})
}

func (o *origin) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls
}

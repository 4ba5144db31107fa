package script

import (
	"fmt"
	"io"
	"net"
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
	body   string          // guarded by mu; {key} is the key
	status int             // guarded by mu
	of     map[string]int  // guarded by mu; statuses of single keys
	calls  int             // guarded by mu
	holds  bool            // guarded by mu; new calls wait
	held   []chan struct{} // guarded by mu; those that wait, each for its own to close
}

// reset is the status of an answer that is a broken connection.
const reset = 0

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("key")
	o.mu.Lock()
	o.calls++
	body, status := strings.ReplaceAll(o.body, "{key}", key), o.status
	if own, ok := o.of[key]; ok {
		status = own
	}
	gate := make(chan struct{})
	if o.holds {
		o.held = append(o.held, gate)
	} else {
		close(gate)
	}
	o.mu.Unlock()
	select {
	case <-gate:
	case <-r.Context().Done():
		return
	}
	if status == reset {
		breakOff(w)
		return
	}
	w.WriteHeader(status)
	io.WriteString(w, body)
}

// breakOff ends the connection with a reset.
func breakOff(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
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
	o := &origin{body: `"v1"`, status: http.StatusOK, of: map[string]int{}}
	server := httptest.NewServer(o)
	ts.Defer(server.Close)
	ts.Defer(o.release)
	o.addr = strings.TrimPrefix(server.URL, "http://")
	ts.Setenv(name, o.addr)
	return o
}

func (o *origin) obey(ts *testscript.TestScript, words []string) {
	value := ""
	if len(words) >= 2 {
		value = words[1]
	}
	switch words[0] {
	case "set":
		o.change(func() { o.body = unescape(ts, value) })
	case "status":
		o.answer(ts, value, words[2:])
	case "hold":
		o.change(func() { o.holds = true })
	case "pass": // the new ones; those that wait go on waiting
		o.change(func() { o.holds = false })
	case "release":
		if value == "" {
			o.release()
		} else {
			o.free(number(ts, value))
		}
	case "calls":
		least, most, among := strings.Cut(value, "..")
		if !among {
			most = least
		}
		n := o.count()
		ts.Logf("[%d calls]", n)
		want(ts, n >= number(ts, least) && n <= number(ts, most), "the origin was called %d times, want %s", n, value)
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

// answer sets the status of all keys, or of one.
func (o *origin) answer(ts *testscript.TestScript, status string, key []string) {
	n := reset
	if status != "reset" {
		n = number(ts, status)
	}
	o.change(func() {
		if len(key) == 1 {
			o.of[key[0]] = n
		} else {
			o.status = n
		}
	})
}

func (o *origin) change(field func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	field()
}

// release lets those that wait go, and the new ones pass.
func (o *origin) release() {
	o.change(func() { o.holds = false })
	o.free(-1)
}

// free lets the n go that have waited longest, or all.
func (o *origin) free(n int) {
	o.change(func() {
		if n < 0 || n > len(o.held) {
			n = len(o.held)
		}
		for _, gate := range o.held[:n] {
			close(gate)
		}
		o.held = o.held[n:]
	})
}

func (o *origin) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls
}

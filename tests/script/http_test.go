package script

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// request is one to send, written out by hand: a client library would tidy the
// path, follow redirects or send again.
type request struct {
	method, addr, path string
	headers            []string
	body               *string
}

// answer is what came back, or why nothing whole did.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

func parseRequest(ts *testscript.TestScript, args []string) request {
	want(ts, len(args) >= 2, "usage: METHOD ADDR/PATH [-h LINE] [-d BODY]")
	r := request{method: args[0]}
	addr, path, found := strings.Cut(args[1], "/")
	want(ts, found, "%s has no path", args[1])
	r.addr, r.path = addr, "/"+path
	for args = args[2:]; len(args) >= 2; args = args[2:] {
		switch args[0] {
		case "-h":
			r.headers = append(r.headers, args[1])
		case "-d":
			text := unescape(ts, args[1])
			r.body = &text
		default:
			ts.Fatalf("unknown option %s", args[0])
		}
	}
	want(ts, len(args) == 0, "left over: %q", args)
	return r
}

// numbered puts i where the request says {i}.
func (r request) numbered(i int) request {
	r.path = strings.ReplaceAll(r.path, "{i}", strconv.Itoa(i))
	return r
}

func (r request) host() string {
	if strings.HasPrefix(r.addr, "unix:") {
		return "localhost"
	}
	return r.addr
}

func (r request) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", r.method, r.path)
	for _, h := range append(r.headers, "Host: "+r.host(), "Connection: close") {
		if name, _, _ := strings.Cut(h, ":"); !strings.Contains(b.String(), "\n"+name+":") { // the script's goes first
			b.WriteString(h + "\r\n")
		}
	}
	if r.body != nil {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(*r.body))
	}
	b.WriteString("\r\n")
	if r.body != nil {
		b.WriteString(*r.body)
	}
	return b.String()
}

// send returns once the request is out; the answer comes later.
func (r request) send(limit time.Duration) (func() answer, error) {
	conn, err := dial(r.addr)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(limit))
	if _, err := io.WriteString(conn, r.text()); err != nil {
		conn.Close()
		return nil, err
	}
	return func() answer {
		defer conn.Close()
		return readAnswer(conn, r.method)
	}, nil
}

func readAnswer(conn net.Conn, method string) answer {
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	if resp.Close { // ReadResponse took the header off
		resp.Header.Set("Connection", "close")
	}
	text, err := io.ReadAll(resp.Body) // fails when fewer bytes come than were announced
	return answer{resp.StatusCode, resp.Header, string(text), err}
}

// patience bounds one answer.
const patience = 40 * time.Second

func (r request) do() answer {
	rest, err := r.send(patience)
	if err != nil {
		return answer{err: err}
	}
	return rest()
}

func (a answer) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP %d\n", a.status)
	a.header.Write(&b)
	return b.String() + "\n" + a.body
}

func httpOnce(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) >= 3, "usage: http STATUS METHOD ADDR/PATH …")
	a := parseRequest(ts, args[1:]).do()
	fmt.Fprintln(ts.Stdout(), a)
	take(ts, []answer{a}, args[0])
}

// take makes answers the current ones; each must be whole and have the status.
func take(ts *testscript.TestScript, answers []answer, status string) {
	stateOf(ts).answers = answers
	for i, a := range answers {
		ts.Check(a.err)
		want(ts, strconv.Itoa(a.status) == status, "answer %d: status %d, want %s\n%s", i, a.status, status, a)
	}
}

func begin(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) >= 4, "usage: begin NAME COUNT METHOD ADDR/PATH …")
	r, n := parseRequest(ts, args[2:]), number(ts, args[1])
	rests := make([]func() answer, n)
	for i := range n {
		rest, err := r.numbered(i).send(patience)
		ts.Check(err)
		rests[i] = rest
	}
	done := make(chan []answer, 1)
	stateOf(ts).asked[args[0]] = done
	go func() { done <- gather(rests) }()
}

func gather(rests []func() answer) []answer {
	answers := make([]answer, len(rests))
	var wait sync.WaitGroup
	for i, rest := range rests {
		wait.Go(func() { answers[i] = rest() })
	}
	wait.Wait()
	return answers
}

func end(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) == 2, "usage: end NAME STATUS")
	done := stateOf(ts).asked[args[0]]
	want(ts, done != nil, "nothing begun as %s", args[0])
	delete(stateOf(ts).asked, args[0])
	take(ts, <-done, args[1])
}

func until(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) == 5, "usage: until LIMIT STATUS METHOD ADDR/PATH BODY")
	r, text := parseRequest(ts, args[2:4]), unescape(ts, args[4])
	took, err := eventually(duration(ts, args[0]), func() error {
		a := r.do()
		if a.err != nil {
			return a.err
		}
		stateOf(ts).answers = []answer{a}
		if strconv.Itoa(a.status) != args[1] || text != "*" && a.body != text {
			return fmt.Errorf("want %s %s, have %s", args[1], text, a)
		}
		return nil
	})
	ts.Check(err)
	ts.Logf("[after %s]", took.Round(time.Millisecond))
}

func header(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, len(args) == 2, "usage: [!] header NAME PATTERN")
	re := pattern(ts, args[1])
	for i, a := range stateOf(ts).answers {
		value := strings.Join(a.header.Values(args[0]), ", ")
		want(ts, re.MatchString(value) != neg, "answer %d: %s is %q", i, args[0], value)
	}
}

func body(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) == 1, "usage: body TEXT")
	text := unescape(ts, args[0])
	for i, a := range stateOf(ts).answers {
		want(ts, a.body == text, "answer %d: body is %q, want %q", i, a.body, text)
	}
}

// code checks that each answer is a problem document with that code.
func code(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) == 1, "usage: code WORD")
	for i, a := range stateOf(ts).answers {
		var p struct{ Code, RequestID string }
		ts.Check(json.Unmarshal([]byte(a.body), &p))
		want(ts, p.Code == args[0] && p.RequestID != "", "answer %d: code is %q, want %q\n%s", i, p.Code, args[0], a)
		kind := a.header.Get("Content-Type")
		want(ts, kind == "application/problem+json", "answer %d: content type %q", i, kind)
	}
}

// told waits until an instance has received that many invalidations of a
// namespace from others.
func told(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) == 3, "usage: told ADDR NAMESPACE N")
	line := fmt.Sprintf("cocache_invalidations_total{cocache_namespace=%q,direction=\"received\"} %s\n", args[1], args[2])
	took, err := eventually(5*time.Second, func() error {
		a := request{method: "GET", addr: args[0], path: "/metrics"}.do()
		if a.err == nil && !strings.Contains(a.body, line) {
			return fmt.Errorf("no series %s", line)
		}
		return a.err
	})
	ts.Check(err)
	ts.Logf("[after %s]", took.Round(time.Millisecond))
}

// series sets a variable to the number of series that /metrics has, but those
// of the Go runtime and the process, which come and go by themselves.
func series(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) == 2, "usage: series NAME ADDR")
	a := request{method: "GET", addr: args[1], path: "/metrics"}.do()
	ts.Check(a.err)
	n := 0
	for line := range strings.Lines(a.body) {
		if strings.HasPrefix(line, "cocache_") {
			n++
		}
	}
	want(ts, n > 0, "no series")
	ts.Setenv(args[0], strconv.Itoa(n))
	ts.Logf("[%d series]", n)
}

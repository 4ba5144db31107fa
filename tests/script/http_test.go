package script

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
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
	number             int
}

// answer is what came back, or why nothing whole did.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
	number int // of its request
	took   time.Duration
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
	r.number, r.path = i, strings.ReplaceAll(r.path, "{i}", strconv.Itoa(i))
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
	began := time.Now()
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
		a := readAnswer(conn, r.method)
		a.number, a.took = r.number, time.Since(began)
		return a
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
	return answer{status: resp.StatusCode, header: resp.Header, body: string(text), err: err}
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

// take makes answers the current ones; each must be whole and have the status,
// or one of those that "|" divides.
func take(ts *testscript.TestScript, answers []answer, status string) {
	stateOf(ts).answers = answers
	for i, a := range answers {
		ts.Check(a.err)
		ok := slices.Contains(strings.Split(status, "|"), strconv.Itoa(a.status))
		want(ts, ok, "answer %d: status %d, want %s\n%s", i, a.status, status, a)
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
	stateOf(ts).asked[args[0]] = &asked{done: done, stop: func() {}}
	go func() { done <- gather(rests) }()
}

// asked are requests in the background.
type asked struct {
	stop func() // no further ones
	done chan []answer
}

// repeat sends requests at a steady rate, however long their answers take.
func repeat(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) >= 4, "usage: repeat NAME EVERY METHOD ADDR/PATH …")
	r, every := parseRequest(ts, args[2:]), duration(ts, args[1])
	stop := make(chan struct{})
	a := &asked{stop: sync.OnceFunc(func() { close(stop) }), done: make(chan []answer, 1)}
	ts.Defer(a.stop)
	stateOf(ts).asked[args[0]] = a
	go func() { a.done <- steadily(r, every, stop) }()
}

func steadily(r request, every time.Duration, stop chan struct{}) (answers []answer) {
	var wait sync.WaitGroup
	var mu sync.Mutex
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := 0; ; i++ {
		wait.Go(func() {
			a := r.numbered(i).do()
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, a)
		})
		select {
		case <-stop:
			wait.Wait()
			return answers
		case <-tick.C:
		}
	}
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
	a := stateOf(ts).asked[args[0]]
	want(ts, a != nil, "nothing begun as %s", args[0])
	delete(stateOf(ts).asked, args[0])
	a.stop()
	answers := <-a.done
	ts.Logf("[%d answers]", len(answers))
	take(ts, answers, args[1])
}

// slow checks how many of the answers took longer than that.
func slow(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) == 2, "usage: slow DURATION AT-MOST")
	var over []time.Duration
	for _, a := range stateOf(ts).answers {
		if a.took > duration(ts, args[0]) {
			over = append(over, a.took.Round(time.Millisecond))
		}
	}
	ts.Logf("[over %s: %v]", args[0], over)
	want(ts, len(over) <= number(ts, args[1]), "%d of %d answers took longer than %s", len(over), len(stateOf(ts).answers), args[0])
}

func until(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) >= 5, "usage: until LIMIT STATUS METHOD ADDR/PATH BODY [-h LINE] [-d BODY]")
	r, text := parseRequest(ts, slices.Concat(args[2:4], args[5:])), unescape(ts, args[4])
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
	for i, a := range stateOf(ts).answers {
		text := strings.ReplaceAll(unescape(ts, args[0]), "{i}", strconv.Itoa(a.number))
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
	series := `cocache_invalidations_total{cocache_namespace="` + args[1] + `",direction="received"} ` + args[2]
	waitForMetric(ts, args[0], regexp.MustCompile("(?m)^"+regexp.QuoteMeta(series)+"$"))
}

// metric waits until a line of /metrics matches.
func metric(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) == 2, "usage: metric ADDR PATTERN")
	waitForMetric(ts, args[0], pattern(ts, args[1]))
}

func waitForMetric(ts *testscript.TestScript, addr string, line *regexp.Regexp) {
	took, err := eventually(5*time.Second, func() error {
		a := request{method: "GET", addr: addr, path: "/metrics"}.do()
		if a.err == nil && !line.MatchString(a.body) {
			return fmt.Errorf("/metrics has no %s", line)
		}
		return a.err
	})
	ts.Check(err)
	ts.Logf("[after %s]", took.Round(time.Millisecond))
}

// calm waits until an instance has no more goroutines and open files than
// when it was ready, but for a few: what a fault cost is given back.
func calm(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) == 1, "usage: calm NAME")
	p := processOf(ts, args[0])
	took, err := eventually(30*time.Second, func() error {
		now, err := lookAt(p.addr)
		if err == nil && (now.goroutines > p.atRest.goroutines+slack || now.files > p.atRest.files+slack) {
			err = fmt.Errorf("%+v, was %+v", now, p.atRest)
		}
		return err
	})
	ts.Check(err)
	ts.Logf("[after %s]", took.Round(time.Millisecond))
}

// slack is what an instance at work may keep, such as pools.
const slack = 20

// weight is what an instance takes of the machine.
type weight struct{ goroutines, files int }

func lookAt(addr string) (weight, error) {
	a := request{method: "GET", addr: addr, path: "/metrics"}.do()
	if a.err != nil {
		return weight{}, a.err
	}
	gauge := func(name string) int {
		_, rest, _ := strings.Cut(a.body, "\n"+name+" ")
		text, _, _ := strings.Cut(rest, "\n")
		n, _ := strconv.Atoi(text)
		return n
	}
	return weight{gauge("go_goroutines"), gauge("process_open_fds")}, nil
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

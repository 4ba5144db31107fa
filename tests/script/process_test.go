package script

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// process is a cocache-run that serves.
type process struct {
	cmd    *exec.Cmd
	addr   string
	out    *buffer // stdout and stderr
	atRest weight  // once ready
	exited chan struct{}
	code   int // once exited: the exit code, or 128 + the signal as a shell says it
}

// ready bounds the wait for a start: much, for two cores that others use too.
const ready = 30 * time.Second

func serve(ts *testscript.TestScript, _ bool, args []string) {
	opts, args := options(ts, args, "-at", "-within")
	want(ts, len(args) == 2, "usage: serve [-at ADDR] [-live] [-within D] NAME FILE")
	s, name := stateOf(ts), args[0]
	addr := opts["-at"]
	if addr == "" {
		addr = freeAddr(ts)
	}
	ts.Setenv(name, addr)
	p := &process{addr: addr, out: &buffer{}, exited: make(chan struct{})}
	p.cmd = command(ts, args[1])
	p.cmd.Env = append(p.cmd.Env, "LISTEN="+addr)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	ts.Check(p.cmd.Start())
	go p.wait()
	s.processes[name] = p
	ts.Defer(func() {
		p.cmd.Process.Kill()
		<-p.exited
		ts.Logf("[log of %s]\n%s", name, p.out)
		if strings.Contains(p.out.String(), "DATA RACE") || strings.Contains(p.out.String(), "panic: ") {
			s.t.Errorf("the log of %s has a data race or a panic", name)
		}
	})
	probe := "/readyz"
	if _, only := opts["-live"]; only {
		probe = "/livez"
	}
	within := ready
	if text := opts["-within"]; text != "" {
		within = duration(ts, text)
	}
	took, err := eventually(within, func() error { return p.probe(addr, probe) })
	ts.Check(err)
	p.atRest, err = lookAt(addr)
	ts.Check(err)
	ts.Logf("[%s answers %s after %s]", name, probe, took.Round(time.Millisecond))
}

// errExited: there is nothing to wait for any more.
var errExited = errors.New("exited")

func (p *process) wait() {
	p.cmd.Wait()
	status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if p.code = status.ExitStatus(); status.Signaled() {
		p.code = 128 + int(status.Signal())
	}
	close(p.exited)
}

func (p *process) probe(addr, path string) error {
	select {
	case <-p.exited:
		return fmt.Errorf("%w with %d", errExited, p.code)
	default:
	}
	a := request{method: "GET", addr: addr, path: path}.do()
	if a.err != nil {
		return a.err
	}
	if a.status != http.StatusOK {
		return fmt.Errorf("%s: %s", path, a)
	}
	return nil
}

// command is cocache-run with the script's environment, in the script's folder.
func command(ts *testscript.TestScript, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(binaries, "cocache-run"), args...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "SETTING"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	for name, r := range stateOf(ts).redis {
		cmd.Env = append(cmd.Env, name+"="+r.addr)
	}
	for name, o := range stateOf(ts).origins {
		cmd.Env = append(cmd.Env, name+"="+o.addr)
	}
	cmd.Env = append(cmd.Env, "LISTEN="+ts.Getenv("LISTEN"))
	return cmd
}

func run(ts *testscript.TestScript, _ bool, args []string) {
	opts, args := options(ts, args, "-within", "-stdin")
	want(ts, len(args) >= 1, "usage: run [-within D] [-stdin FILE] CODE ARG…")
	within := ready
	if text := opts["-within"]; text != "" {
		within = duration(ts, text)
	}
	p := &process{exited: make(chan struct{}), cmd: command(ts, args[1:]...)}
	p.cmd.Stdout, p.cmd.Stderr = ts.Stdout(), ts.Stderr()
	if file := opts["-stdin"]; file != "" {
		p.cmd.Stdin = strings.NewReader(ts.ReadFile(file))
	}
	began := time.Now()
	ts.Check(p.cmd.Start())
	go p.wait()
	select {
	case <-p.exited:
	case <-time.After(within):
		p.cmd.Process.Kill()
		<-p.exited
		ts.Fatalf("still ran after %s", within)
	}
	want(ts, p.code == number(ts, args[0]), "exit code %d, want %s", p.code, args[0])
	ts.Logf("[exit %d after %s]", p.code, time.Since(began).Round(time.Millisecond))
}

func processOf(ts *testscript.TestScript, name string) *process {
	p := stateOf(ts).processes[name]
	want(ts, p != nil, "no process %s", name)
	return p
}

// signalTo signals an instance or a Redis; a Redis that is killed is gone when
// it returns.
func signalTo(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) == 2, "usage: signal NAME SIGNAL")
	sig := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL,
		"STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}[args[1]]
	want(ts, sig != 0, "unknown signal %s", args[1])
	s := stateOf(ts)
	if s.redis[args[0]] == nil {
		ts.Check(processOf(ts, args[0]).cmd.Process.Signal(sig))
		return
	}
	r := redisOf(ts, args[0])
	r.server.Signal(s.t, sig)
	if sig == syscall.SIGKILL {
		_, err := eventually(10*time.Second, func() error { return refused(r.addr) })
		ts.Check(err)
	}
}

func exitOf(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) == 2 || len(args) == 3, "usage: exit NAME CODE [WITHIN]")
	p, within := processOf(ts, args[0]), ready
	if len(args) == 3 {
		within = duration(ts, args[2])
	}
	select {
	case <-p.exited:
	case <-time.After(within):
		ts.Fatalf("%s still runs after %s", args[0], within)
	}
	want(ts, p.code == number(ts, args[1]), "%s exited with %d, want %s", args[0], p.code, args[1])
}

func logOf(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, len(args) == 2, "usage: [!] log NAME PATTERN")
	p, re := processOf(ts, args[0]), pattern(ts, args[1])
	if neg {
		want(ts, !re.MatchString(p.out.String()), "the log of %s has %s", args[0], args[1])
		return
	}
	_, err := eventually(5*time.Second, func() error {
		if !re.MatchString(p.out.String()) {
			return fmt.Errorf("the log of %s has no %s", args[0], args[1])
		}
		return nil
	})
	ts.Check(err)
}

// lines checks how many lines an instance has logged.
func lines(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) == 3, "usage: lines NAME PATTERN AT-MOST")
	re, n := pattern(ts, args[1]), 0
	for line := range strings.Lines(processOf(ts, args[0]).out.String()) {
		if re.MatchString(line) {
			n++
		}
	}
	ts.Logf("[%d lines]", n)
	want(ts, n <= number(ts, args[2]), "the log of %s has %d lines of %s", args[0], n, args[1])
}

func freeAddr(ts *testscript.TestScript) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	defer l.Close()
	return l.Addr().String()
}

// dial knows host:port and unix:/path, as the configuration does.
func dial(addr string) (net.Conn, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return net.DialTimeout("unix", path, 10*time.Second)
	}
	return net.DialTimeout("tcp", addr, 10*time.Second)
}

func port(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		ts.Setenv(name, freeAddr(ts))
	}
}

func occupy(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) == 1, "usage: occupy NAME")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

func listens(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, len(args) == 1, "usage: [!] listens ADDR")
	if neg {
		ts.Check(refused(args[0]))
		return
	}
	conn, err := dial(args[0])
	ts.Check(err)
	conn.Close()
}

// refused is nil when nobody listens at addr.
func refused(addr string) error {
	conn, err := dial(addr)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s is not refused: %v", addr, err)
	}
	return nil
}

// buffer takes what a process writes while others read it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Package redistest starts real Redis servers for tests, each on a free
// loopback port with a directory of its own, and ends them with the test.
package redistest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is a running redis-server.
type Server struct {
	Addr string
	cmd  *exec.Cmd
	log  *lockedBuffer
}

// Start runs a standalone server, or skips the test where redis-server is not
// installed.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	path := executable(t)
	for try := 1; ; try++ {
		s, err := start(t, path, FreePort(t), args)
		if err == nil {
			return s
		}
		if try == 3 { // a free port may be taken before the server binds it
			t.Fatalf("start redis-server: %v", err)
		}
	}
}

// StartOn is Start on a port that the caller has chosen.
func StartOn(t testing.TB, port int, args ...string) *Server {
	t.Helper()
	s, err := start(t, executable(t), port, args)
	if err != nil {
		t.Fatalf("start redis-server: %v", err)
	}
	return s
}

func executable(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed: apt-get install redis-server")
	}
	return path
}

// StartCluster runs a cluster of one node that owns every slot.
func StartCluster(t testing.TB) *Server {
	t.Helper()
	s := Start(t, "--cluster-enabled", "yes")
	s.Do(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	deadline := time.Now().Add(10 * time.Second)
	for !strings.Contains(s.Do(t, "CLUSTER", "INFO"), "cluster_state:ok") {
		if time.Now().After(deadline) {
			t.Fatal("cluster of one node did not become ok")
		}
		time.Sleep(20 * time.Millisecond)
	}
	return s
}

func start(t testing.TB, path string, port int, args []string) (*Server, error) {
	s := &Server{Addr: "127.0.0.1:" + strconv.Itoa(port), log: &lockedBuffer{}}
	s.cmd = exec.Command(path, append([]string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", t.TempDir(),
		"--save", "", "--appendonly", "no", "--daemonize", "no",
	}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	exited := make(chan error, 1)
	go func() { exited <- s.cmd.Wait() }()
	t.Cleanup(func() { s.cmd.Process.Kill(); <-exited; exited <- nil })
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		select {
		case err := <-exited:
			exited <- err
			return nil, fmt.Errorf("exited: %v\n%s", err, s.log)
		default:
		}
		if conn, err := net.Dial("tcp", s.Addr); err == nil {
			conn.Close()
			return s, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, fmt.Errorf("does not answer\n%s", s.log)
}

// FreePort is a loopback port that nobody listens on at the moment.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Signal sends the server's process a signal; one that stops it is undone by
// the end of the test, which kills it.
func (s *Server) Signal(t testing.TB, signal os.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// Do runs one command over a connection of its own and returns the raw reply.
func (s *Server) Do(t testing.TB, args ...string) string {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 1<<20)
	n, err := conn.Read(reply)
	if err != nil {
		t.Fatal(err)
	}
	return string(reply[:n])
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

package wasm

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/loaders/loadertest"
	"github.com/cocache/cocache/runtime/loader"
)

//go:generate sh testdata/guest-c/build.sh

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGuestC(t *testing.T) { loadertest.Run(t, opener(guestC(t))) }

func TestGuestGo(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a Go guest")
	}
	loadertest.Run(t, opener(guestGo(t)))
}

func opener(module []byte) loadertest.Opener {
	return func(t *testing.T, o loadertest.Options) loader.Loader {
		return mustOpen(t, Spec{
			Name: t.Name(), Module: module, Timeout: o.Timeout, MaxOutput: o.MaxOutput, MaxInstances: o.MaxInstances,
			Capabilities: capability.Set{
				Namespace: loadertest.Namespace, Settings: o.Settings, Log: o.Log, Fetch: o.Fetch,
			},
		})
	}
}

func guestC(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/guest-c/guest.wasm")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// buildGo builds the Go guest once for all tests.
var buildGo = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "guest-go-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", out, "./testdata/guest-go")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
})

func guestGo(t testing.TB) []byte {
	t.Helper()
	b, err := buildGo()
	if err != nil {
		t.Fatalf("build the Go guest: %v", err)
	}
	return b
}

// mustOpen opens a module and closes it at the end of the test.
func mustOpen(t testing.TB, spec Spec) Loader {
	t.Helper()
	l, err := Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

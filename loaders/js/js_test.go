package js_test

import (
	_ "embed"
	"testing"

	"go.uber.org/goleak"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/loaders/js"
	"github.com/cocache/cocache/loaders/loadertest"
	"github.com/cocache/cocache/runtime/loader"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

//go:embed testdata/fixture.ts
var fixture []byte

func TestSuite(t *testing.T) {
	loadertest.Run(t, func(t *testing.T, o loadertest.Options) loader.Loader {
		return open(t, js.Spec{
			Name: "fixture.ts", Source: fixture, Codec: "raw",
			Timeout: o.Timeout, MaxOutput: o.MaxOutput, MaxInstances: o.MaxInstances,
			Capabilities: capability.Set{Namespace: loadertest.Namespace, Settings: o.Settings, Log: o.Log, Fetch: o.Fetch},
		})
	})
}

func open(t *testing.T, s js.Spec) js.Loader {
	t.Helper()
	l, err := js.Open(t.Context(), s)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

package hostcall

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"go.uber.org/goleak"

	"github.com/cocache/cocache/loaders/capability"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// guest is a module that has one page of memory and nothing else.
func guest(t *testing.T) api.Module {
	t.Helper()
	r := wazero.NewRuntime(t.Context())
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	mod, err := r.Instantiate(t.Context(), []byte("\x00asm\x01\x00\x00\x00\x05\x03\x01\x00\x01\x07\x0a\x01\x06memory\x02\x00"))
	if err != nil {
		t.Fatal(err)
	}
	return mod
}

// offered is a function that guests may import.
func offered(t *testing.T, module, name string) function {
	t.Helper()
	for _, f := range functions() {
		if f.module == module && f.name == name {
			return f
		}
	}
	t.Fatalf("no function %s.%s", module, name)
	return function{}
}

// logged answers the log of one call, in which work is done.
func logged(t *testing.T, work func(ctx context.Context)) string {
	t.Helper()
	var b bytes.Buffer
	set := capability.Set{Log: slog.New(slog.NewTextHandler(&b, nil))}
	ctx, c := NewHost(set, time.Minute).Begin(t.Context())
	work(ctx)
	c.End()
	return b.String()
}

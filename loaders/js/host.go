package js

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/loaders/js/guest"
)

// host answers one call's wishes out of the namespace's capabilities.
type host struct {
	set   *capability.Set
	fetch *capability.FetchBudget
}

var _ guest.Host = (*host)(nil)

// host begins the budget of a call, so each call takes its own.
func (l *single) host() *host {
	return &host{set: &l.spec.Capabilities, fetch: l.spec.Capabilities.Fetch.Begin()}
}

func (h *host) Fetch(ctx context.Context, r capability.FetchRequest) (capability.FetchResponse, error) {
	return h.fetch.Do(ctx, r)
}

func (h *host) Get(ctx context.Context, namespace, key string) (capability.Read, bool, error) {
	if h.set.Namespaces == nil {
		return capability.Read{}, false, fmt.Errorf("read namespace %.64q: %w; loader.allow.namespaces would allow it", namespace, capability.ErrDenied)
	}
	return h.set.Namespaces.Read(ctx, namespace, key)
}

// Log keeps the values of the call's context, and tells the line even when the
// call has been cancelled.
func (h *host) Log(ctx context.Context, level slog.Level, line string) {
	h.set.Log.Log(context.WithoutCancel(ctx), level, line)
}

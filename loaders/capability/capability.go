// Package capability is what a loader may ask of its host: its settings,
// secrets, a log, HTTP to allowed origins, and the values of allowed
// namespaces.
//
// Every engine gives its guests these and nothing else; the engines translate,
// this package decides. A capability that was not granted answers ErrDenied.
package capability

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// ErrDenied: the namespace's configuration does not allow what was asked.
var ErrDenied = errors.New("not allowed by the namespace's configuration")

// Set is what one namespace's loader may use.
type Set struct {
	// Namespace is the loader's own.
	Namespace string
	// Settings are plain texts from the configuration; read-only.
	Settings map[string]string
	// Secrets holds only those that the configuration exposes to the guest.
	Secrets map[string]string
	// Log takes the guest's lines; never nil.
	Log *slog.Logger
	// Fetch performs the guest's HTTP requests; never nil, denies all when
	// nothing is allowed.
	Fetch *Fetcher
	// Namespaces reads other namespaces; nil when none is allowed.
	Namespaces Reader
}

// Reader reads a key of an allowed namespace on behalf of a load. found is
// false for a key that does not exist. A namespace that is not allowed is
// ErrDenied.
type Reader interface {
	Read(ctx context.Context, namespace, key string) (v Read, found bool, err error)
}

// Read is another namespace's value.
type Read struct {
	Value string
	// Codec is that namespace's: "json", "string", "msgpack" or "raw".
	Codec   string
	TTL     time.Duration
	Version uint64
}

// Package loadertest is the one suite that every engine passes.
//
// An engine brings a fixture guest that speaks the key language below, and a
// function that opens it; Run does the rest. What the suite asserts is the
// contract of package loader as a guest sees it, so an engine that passes can
// replace another one. Times are asserted generously: the suite finds a load
// that does not end, not a slow one.
//
// The fixture's codec is raw. By key it answers:
//
//	echo/<bytes>    the bytes after the prefix, whatever they are
//	empty           a value of zero bytes
//	absent          absent
//	absent-ttl      absent, to be kept 7s
//	retry           retry "try later" after 3s
//	error           the error "no such luck" with the code E_LUCK
//	ttl             the value "x" for 5m
//	ttl-forever     a value, forever
//	ttl-zero        a value with ttl 0, which is a failure
//	version         a value with the version 18446744073709551615
//	no-store        a value that is not to be stored
//	size/<n>        n bytes, byte i being i % 251
//	spin            never: an endless loop
//	crash           never: it throws or traps
//	setting/<name>  the setting, absent without one
//	background      "true" or "false"
//	previous        the previous version's digits, "0" when unknown
//	sleep/<ms>      "slept", so many milliseconds later
//	log/<text>      "ok", after logging the text at level info
//	nonsense        something that is no answer
//	fetch/<url>     the body of a GET; an error when that is denied
//	leave-out       in a batch only: absent
//	anything else   an error
//
// It has a LoadAll which answers the same for each key, so that a key that
// ends in an error fails alone.
//
// Engines call goleak.VerifyTestMain in their own TestMain; the suite closes
// everything it opens.
package loadertest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/runtime/loader"
)

// Namespace is the name under which the suite expects a fixture to run.
const Namespace = "fixture"

// Options is how a fixture is to be opened. The suite sets every field.
type Options struct {
	// Timeout bounds one call of the guest.
	Timeout time.Duration
	// MaxOutput bounds the bytes of one value.
	MaxOutput int64
	// MaxInstances bounds the calls that run at once.
	MaxInstances int
	Settings     map[string]string
	Log          *slog.Logger
	Fetch        *capability.Fetcher
}

// Opener opens the fixture and closes it in t's Cleanup.
type Opener = func(t *testing.T, o Options) loader.Loader

// Run runs the suite.
func Run(t *testing.T, open func(t *testing.T, o Options) loader.Loader) {
	t.Run("answers", func(t *testing.T) { testAnswers(t, open) })
	t.Run("bytes", func(t *testing.T) { testBytes(t, open) })
	t.Run("failures", func(t *testing.T) { testFailures(t, open) })
	t.Run("request", func(t *testing.T) { testRequest(t, open) })
	t.Run("log", func(t *testing.T) { testLog(t, open) })
	t.Run("output limit", func(t *testing.T) { testOutputLimit(t, open) })
	t.Run("timeout", func(t *testing.T) { testTimeout(t, open) })
	t.Run("cancel", func(t *testing.T) { testCancel(t, open) })
	t.Run("concurrent", func(t *testing.T) { testConcurrent(t, open) })
	t.Run("fetch", func(t *testing.T) { testFetch(t, open) })
	t.Run("batch", func(t *testing.T) { testBatch(t, open) })
}

const (
	// slack is what a load may take beyond its own limit.
	slack = 5 * time.Second
	// mebi is one MiB.
	mebi = 1 << 20
)

func options(t *testing.T) Options {
	return Options{
		Timeout: 20 * time.Second, MaxOutput: mebi, MaxInstances: 4,
		Settings: map[string]string{"table": "users", "empty": ""},
		Log:      slog.New(slog.DiscardHandler), Fetch: fetcher(t, capability.FetchConfig{}),
	}
}

func fetcher(t *testing.T, c capability.FetchConfig) *capability.Fetcher {
	t.Helper()
	f, err := capability.NewFetcher(c)
	if err != nil {
		t.Fatalf("new fetcher: %v", err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// FieldError is one fault of a policy, at the path of its field.
type FieldError struct {
	Path    string // e.g. "local.max-age"
	Message string
}

func (e FieldError) Error() string { return e.Path + ": " + e.Message }

// Errors are all the faults of one policy.
type Errors []FieldError

func (es Errors) Error() string {
	texts := make([]string, len(es))
	for i, e := range es {
		texts[i] = e.Error()
	}
	return strings.Join(texts, "; ")
}

// MaxLeaseTTL bounds how long a dead holder can keep others from filling.
const MaxLeaseTTL = time.Hour

// Validate checks the policy with its defaults filled in; nil when it is
// sound.
func (p Policy) Validate() Errors {
	p = p.WithDefaults()
	var v validator
	v.lifetime("ttl", p.TTL, true)
	v.lifetime("max-ttl", p.MaxTTL, true)
	v.lifetime("absent-ttl", p.AbsentTTL, true)
	v.lifetime("lease-ttl", p.LeaseTTL, false)
	v.lifetime("lease-poll.min", p.LeasePoll.Min, false)
	v.lifetime("lease-poll.max", p.LeasePoll.Max, false)
	v.lifetime("local.max-age", p.Local.MaxAge, false)
	v.lifetime("local.degraded-max-age", p.Local.DegradedMaxAge, false)
	v.lifetime("loads.timeout", p.Loads.Timeout, false)
	v.lifetime("loads.queue-wait", p.Loads.QueueWait, false)
	if p.LeaseWait != Off {
		v.lifetime("lease-wait", p.LeaseWait, false)
	}
	if p.Loads.BatchWindow != Off {
		v.lifetime("loads.batch-window", p.Loads.BatchWindow, false)
	}
	if p.StaleTTL != Off {
		v.lifetime("stale-ttl", p.StaleTTL, false)
	}
	if p.RefreshWindow != Off {
		v.lifetime("refresh-window", p.RefreshWindow, false)
	}
	v.relations(p)
	v.numbers(p)
	return v.errs
}

type validator struct{ errs Errors }

// fail keeps the first fault of a field: what follows from it is no news.
func (v *validator) fail(path, format string, args ...any) {
	if slices.ContainsFunc(v.errs, func(e FieldError) bool { return e.Path == path }) {
		return
	}
	v.errs = append(v.errs, FieldError{path, fmt.Sprintf(format, args...)})
}

func (v *validator) lifetime(path string, d time.Duration, forever bool) {
	switch {
	case d == Forever && !forever:
		v.fail(path, "must end: forever is not allowed here")
	case d < time.Millisecond:
		v.fail(path, "must be at least 1ms, is %s", Text(d))
	}
}

func (v *validator) relations(p Policy) {
	if p.TTL > p.MaxTTL {
		v.fail("ttl", "%s is over max-ttl (%s)", Text(p.TTL), Text(p.MaxTTL))
	}
	if p.RefreshWindow != Off && p.RefreshWindow >= p.TTL {
		v.fail("refresh-window", "%s must be shorter than ttl (%s)", Text(p.RefreshWindow), Text(p.TTL))
	}
	if p.Loads.BatchWindow >= p.Loads.Timeout {
		v.fail("loads.batch-window", "%s must be shorter than loads.timeout (%s)", Text(p.Loads.BatchWindow), Text(p.Loads.Timeout))
	}
	if p.LeaseTTL > MaxLeaseTTL {
		v.fail("lease-ttl", "at most %s, is %s", Text(MaxLeaseTTL), Text(p.LeaseTTL))
	}
	if p.LeasePoll.Min > p.LeasePoll.Max {
		v.fail("lease-poll.min", "%s is over lease-poll.max (%s)", Text(p.LeasePoll.Min), Text(p.LeasePoll.Max))
	}
}

func (v *validator) numbers(p Policy) {
	if p.TTLJitter != NoJitter && (p.TTLJitter < 0 || p.TTLJitter > 50) {
		v.fail("ttl-jitter", "must be between 0%% and 50%%, is %d%%", p.TTLJitter)
	}
	if p.Loads.MaxQueued != NoQueue && p.Loads.MaxQueued < 0 {
		v.fail("loads.max-queued", "must not be negative, is %d", p.Loads.MaxQueued)
	}
	for _, n := range []struct {
		path  string
		value int64
	}{
		{"local.max-entries", int64(p.Local.MaxEntries)},
		{"local.max-bytes", p.Local.MaxBytes},
		{"loads.max-concurrent", int64(p.Loads.MaxConcurrent)},
		{"loads.batch-keys", int64(p.Loads.BatchKeys)},
		{"limits.max-key-bytes", int64(p.Limits.MaxKeyBytes)},
		{"limits.max-value-bytes", p.Limits.MaxValueBytes},
		{"limits.max-batch-keys", int64(p.Limits.MaxBatchKeys)},
	} {
		if n.value < 1 {
			v.fail(n.path, "must be at least 1, is %d", n.value)
		}
	}
	word(v, "read-failure", p.ReadFailure, Degrade, Error)
	word(v, "invalidate-failure", p.InvalidateFailure, Retry, Error)
	word(v, "unknown-read", p.UnknownRead, ErrorUnknown, AbsentUnknown)
	word(v, "codec", p.Codec, JSON, String, Msgpack, Raw)
}

// word holds a field against the words that it takes.
func word[T ~string](v *validator, path string, given T, words ...T) {
	if slices.Contains(words, given) {
		return
	}
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	last := len(texts) - 1
	v.fail(path, "must be %s or %s, is %q", strings.Join(texts[:last], ", "), texts[last], given)
}

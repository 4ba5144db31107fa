//go:build wasip1

package wasm

import (
	"time"

	"github.com/cocache/cocache/sdk/abi"
)

// Result is the answer for one key. Make one with Value, Absent, Retry or
// Error; a zero Result is a value of zero bytes with a ttl that is refused.
type Result struct{ answer abi.Answer }

// Value is the key's value, encoded as the namespace's codec says.
func Value(b []byte) Result {
	return Result{abi.Answer{Status: abi.StatusValue, TTLMS: abi.TTLDefault, Body: b}}
}

// Absent says that the key does not exist.
func Absent() Result {
	return Result{abi.Answer{Status: abi.StatusAbsent, TTLMS: abi.TTLDefault}}
}

// Retry says that the source has passing trouble; after is the earliest time
// for another try, 0 when that is not known.
func Retry(message string, after time.Duration) Result {
	r := Result{abi.Answer{Status: abi.StatusRetry, TTLMS: abi.TTLDefault, Body: []byte(message)}}
	if after > 0 {
		r.answer.TTLMS = milliseconds(after)
	}
	return r
}

// Error says that the load failed. The code is a word for the loader's callers
// and may be empty.
func Error(code, message string) Result {
	return Result{abi.Answer{Status: abi.StatusError, TTLMS: abi.TTLDefault, Body: []byte(message), Code: []byte(code)}}
}

// For sets how long the answer may be kept. Less than a millisecond is refused
// by the host.
func (r Result) For(ttl time.Duration) Result {
	r.answer.TTLMS = milliseconds(ttl)
	return r
}

// Forever lets the answer be kept without end.
func (r Result) Forever() Result {
	r.answer.TTLMS = abi.TTLForever
	return r
}

// At gives the answer a version, which orders the values of one key.
func (r Result) At(version uint64) Result {
	r.answer.Version = version
	return r
}

// As gives a raw value a content type.
func (r Result) As(contentType string) Result {
	r.answer.ContentType = []byte(contentType)
	return r
}

// NoStore hands a value to its readers and keeps it nowhere.
func (r Result) NoStore() Result {
	if r.answer.Status == abi.StatusValue {
		r.answer.Status = abi.StatusNoStore
	}
	return r
}

// milliseconds cuts at the longest time there is and rounds down.
func milliseconds(d time.Duration) uint32 {
	return uint32(min(max(d.Milliseconds(), 0), int64(abi.TTLMax)))
}

package loader

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxMessage is the length, in bytes, to which a loader's message is cut.
const MaxMessage = 1024

// Kind says how a loader failed.
type Kind uint8

const (
	// Failed: it reported an error, threw, trapped, exited or answered
	// nonsense.
	Failed Kind = iota
	// Limited: it hit a limit other than time, named by Error.Limit.
	Limited
	// TimedOut: it used up the wall-clock time of Error.Limit.
	TimedOut
	// Retry: it reports passing trouble and asks to be called again.
	Retry
	// BadKey: it cannot take this key, e.g. bytes that are not UTF-8.
	BadKey
)

var kindNames = [...]string{"failed", "limit", "timeout", "retry", "bad key"}

func (k Kind) String() string { return kindNames[k] }

// Error is a tenant's failure: whatever its code did wrong, never a fault of
// the host. It is counted against the namespace and never cached.
type Error struct {
	Kind Kind
	// Message is one line of at most MaxMessage bytes; see Clean.
	Message string
	// Code is a word of the loader's own, for its callers; may be empty.
	Code string
	// Limit is the path of the setting that was hit, e.g.
	// "loader.limits.max-memory", and Value its value in words, e.g. "64MiB".
	// Set when Kind is Limited or TimedOut.
	Limit, Value string
	// After is the earliest time for another try, 0 when not said. Set when
	// Kind is Retry.
	After time.Duration
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "loader %s", e.Kind)
	if e.Limit != "" {
		fmt.Fprintf(&b, ": %s = %s", e.Limit, e.Value)
	}
	if e.Message != "" {
		b.WriteString(": ")
		b.WriteString(e.Message)
	}
	return b.String()
}

// Failf is a Failed error with a cleaned message.
func Failf(format string, args ...any) *Error {
	return &Error{Kind: Failed, Message: Clean(fmt.Sprintf(format, args...))}
}

// Clean makes one safe line of text that came from tenant code: control
// characters and line breaks become blanks, invalid UTF-8 the replacement
// character, and what is beyond MaxMessage bytes is cut at a character's
// border.
func Clean(s string) string {
	s = strings.ToValidUTF8(cut(s), "\uFFFD") // cut first: that bounds the work
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Cf) {
			return ' '
		}
		return r
	}, s)
	return strings.TrimSpace(cut(s)) // replacement characters may have made it longer
}

// cut is s without what is beyond MaxMessage bytes, and without the character
// that stands across the border.
func cut(s string) string {
	if len(s) <= MaxMessage {
		return s
	}
	end := MaxMessage
	for end > MaxMessage-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

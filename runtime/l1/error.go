package l1

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"
)

// ErrLate: the server began the command after its caller had given up, and
// changed nothing.
var ErrLate = errors.New("command began too late")

// Error is a command that Redis did not carry out as far as we know.
type Error struct {
	Op string // the script's verb
	// OutcomeUnknown: the command was sent and may have run, or may still.
	// When false it certainly changed nothing.
	OutcomeUnknown bool
	Err            error
}

func (e *Error) Error() string {
	if e.OutcomeUnknown {
		return fmt.Sprintf("%s in redis (outcome unknown): %v", e.Op, e.Err)
	}
	return fmt.Sprintf("%s in redis: %v", e.Op, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// failure classifies what came back instead of a reply.
func failure(op string, err error) *Error {
	return &Error{Op: op, OutcomeUnknown: !refused(err), Err: err}
}

// refused reports whether err proves that the command did not change anything:
// the server said no, or nothing was ever sent.
func refused(err error) bool {
	if _, ok := rueidis.IsRedisErr(err); ok {
		return true
	}
	var d *dialError
	// The library's ErrClosing proves nothing: what was in flight at Close ends
	// with it too.
	return errors.As(err, &d) || errors.Is(err, ErrAway) || errors.Is(err, ErrDown) || errors.Is(err, ErrLate) || errors.Is(err, errNotSent)
}

// errNotSent wraps the end of a context that ended before the command left.
var errNotSent = errors.New("not sent")

func notSent(ctx context.Context) error {
	return fmt.Errorf("%w: %w", errNotSent, context.Cause(ctx))
}

// Answered reports whether Redis itself said no, rather than being away.
func (e *Error) Answered() bool { return answered(e) }

// answer is what the server itself said to the command, not to the try to connect
// before it.
func answer(err error) (*rueidis.RedisError, bool) {
	var e *Error
	if errors.As(err, &e) {
		err = e.Err
	}
	return rueidis.IsRedisErr(err)
}

func answered(err error) bool {
	_, ok := answer(err)
	return ok
}

// outcomeUnknown reports whether a command may have run, or may yet.
func outcomeUnknown(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.OutcomeUnknown
}

// isOOM reports whether the server had no memory for a write.
func isOOM(err error) bool {
	said, ok := answer(err)
	return ok && hasPrefix(said, "OOM ")
}

// sent reports whether a command was sent, whatever came of it.
func sent(err error) bool {
	return err == nil || outcomeUnknown(err) || answered(err) || errors.Is(err, ErrLate)
}

// Away reports whether a command was not sent because Redis is known to be away.
func Away(err error) bool { return errors.Is(err, ErrAway) || errors.Is(err, ErrDown) }

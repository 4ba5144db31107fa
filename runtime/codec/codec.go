// Package codec says what a value may be: the check that writers and loaders
// pass, the content type readers see, and the number that stands for a codec
// in L1. It converts nothing; a value is kept byte for byte.
package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"unicode/utf8"

	"github.com/cocache/cocache/runtime/entry"
	"github.com/cocache/cocache/runtime/policy"
	"github.com/vmihailenco/msgpack/v5"
)

// ID is the codec's number in an entry's header.
func ID(c policy.Codec) byte {
	switch c {
	case policy.JSON:
		return 1
	case policy.String:
		return 2
	case policy.Msgpack:
		return 3
	default:
		return 0
	}
}

// ContentType of the codec's values; for raw, of a value without its own.
func ContentType(c policy.Codec) string {
	switch c {
	case policy.JSON:
		return "application/json"
	case policy.String:
		return "text/plain; charset=utf-8"
	case policy.Msgpack:
		return "application/vnd.msgpack"
	default:
		return "application/octet-stream"
	}
}

// Check reports why value is not one of the codec's.
func Check(c policy.Codec, value []byte) error {
	switch c {
	case policy.JSON:
		return checkJSON(value)
	case policy.String:
		if !utf8.Valid(value) {
			return errors.New("not valid UTF-8")
		}
	case policy.Msgpack:
		return checkMsgpack(value)
	}
	return nil
}

// checkJSON takes one JSON text of valid UTF-8, however large its numbers.
func checkJSON(value []byte) error {
	if !utf8.Valid(value) {
		return errors.New("not valid UTF-8")
	}
	if json.Valid(value) {
		return nil
	}
	var syntax *json.SyntaxError
	var any json.RawMessage
	if err := json.Unmarshal(value, &any); errors.As(err, &syntax) {
		return fmt.Errorf("not one JSON text: %s at byte %d", syntax.Error(), syntax.Offset)
	}
	return errors.New("not one JSON text")
}

func checkMsgpack(value []byte) error {
	if len(value) == 0 {
		return errors.New("not one msgpack value: empty")
	}
	r := bytes.NewReader(value)
	if err := msgpack.NewDecoder(r).Skip(); err != nil {
		return fmt.Errorf("not one msgpack value: %w", err)
	}
	if r.Len() > 0 {
		return fmt.Errorf("not one msgpack value: %d trailing bytes", r.Len())
	}
	return nil
}

// CheckContentType reports why a writer may not give its value this type; the
// empty type is the codec's own.
func CheckContentType(c policy.Codec, given string) error {
	if given == "" {
		return nil
	}
	if c != policy.Raw {
		if !sameType(given, ContentType(c)) {
			return fmt.Errorf("%q is not the codec's %s", given, ContentType(c))
		}
		return nil
	}
	if len(given) > entry.MaxContentType {
		return fmt.Errorf("%d bytes are over %d", len(given), entry.MaxContentType)
	}
	for _, b := range []byte(given) {
		if b < ' ' || b > '~' {
			return errors.New("not printable ASCII")
		}
	}
	return nil
}

// sameType compares media types and ignores parameters other than a charset
// that says something else than UTF-8.
func sameType(given, want string) bool {
	a, params, err := mime.ParseMediaType(given)
	b, _, _ := mime.ParseMediaType(want)
	if err != nil || a != b {
		return false
	}
	charset, ok := params["charset"]
	return !ok || charset == "utf-8" || charset == "UTF-8"
}

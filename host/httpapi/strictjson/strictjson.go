// Package strictjson reads JSON that must mean one thing: valid UTF-8, no half
// surrogate pairs, no member twice or unknown or missing, nothing after the
// text, no deep nesting.
//
// encoding/json alone puts U+FFFD in the place of whatever is wrong in a string,
// and so makes one key of many; it takes the last of two members and any case of
// a name. Errors tell where, and quote nothing: what stands in the wrong place
// may be a key.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how deep a text may nest.
const MaxDepth = 32

// check holds a text as a whole against the rules.
func check(body []byte) error {
	if !utf8.Valid(body) {
		return errors.New("the body is not valid UTF-8")
	}
	if !json.Valid(body) {
		return errors.New("the body is not one JSON text" + syntaxAt(body))
	}
	depth := 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{', '[':
			if depth++; depth > MaxDepth {
				return fmt.Errorf("the body nests deeper than %d", MaxDepth)
			}
		case '}', ']':
			depth--
		case '"':
			size, ok := scanString(body[i+1:])
			if !ok {
				return fmt.Errorf("the body holds half a surrogate pair in the string at byte %d", i)
			}
			i += size
		}
	}
	return nil
}

// syntaxAt tells where, without quoting.
func syntaxAt(body []byte) string {
	var syntax *json.SyntaxError
	var ignored json.RawMessage
	if err := json.Unmarshal(body, &ignored); errors.As(err, &syntax) {
		return fmt.Sprintf(" (byte %d)", syntax.Offset)
	}
	return ""
}

// scanString walks a valid string's rest, the closing quote included, and
// answers its length; false for a surrogate without its other half.
func scanString(rest []byte) (size int, ok bool) {
	for i := 0; ; i++ {
		switch rest[i] {
		case '"':
			return i + 1, true
		case '\\':
			unit := escapedUnit(rest[i:])
			if utf16.IsSurrogate(unit) {
				if utf16.DecodeRune(unit, escapedUnit(rest[i+6:])) == utf8.RuneError {
					return 0, false
				}
				i += 6
			}
			i++ // what follows the backslash ends nothing
		}
	}
}

// escapedUnit is the UTF-16 unit that text begins with an escape of, or 0.
func escapedUnit(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(unit)
}

// Document is a text that keeps the rules, read member by member in its order.
type Document struct{ dec *json.Decoder }

// Read checks a text as a whole, before any of it has an effect.
func Read(text []byte) (Document, error) {
	if err := check(text); err != nil {
		return Document{}, err
	}
	return Document{json.NewDecoder(bytes.NewReader(text))}, nil
}

// token is nil for a number past a float64 only: the text was checked, and no
// reader here wants numbers.
func (d Document) token() json.Token {
	token, _ := d.dec.Token()
	return token
}

// Members is what an object may hold, by exact name; each function reads the
// member's value.
type Members map[string]func() error

// Object reads an object that has every one of the required members, none twice
// and none that is not known; errors call it what.
func (d Document) Object(what string, known Members, required ...string) error {
	if d.token() != json.Delim('{') {
		return errors.New(what + " must be an object")
	}
	return d.rest(what, known, required...)
}

// TextOr reads a string, or an object as Object does; isText tells which it
// was.
func (d Document) TextOr(what string, into *string, known Members, required ...string) (isText bool, err error) {
	switch token := d.token().(type) {
	case string:
		*into = token
		return true, nil
	case json.Delim:
		if token == '{' {
			return false, d.rest(what, known, required...)
		}
	}
	return false, errors.New(what + " must be a string or an object")
}

// rest reads an object whose brace was read.
func (d Document) rest(what string, known Members, required ...string) error {
	seen := make(map[string]bool, len(known))
	for d.dec.More() {
		name, _ := d.token().(string)
		read, ok := known[name]
		if !ok {
			return errors.New(what + " has a member that is not known here")
		}
		if seen[name] {
			return errors.New(what + " has " + name + " twice")
		}
		seen[name] = true
		if err := read(); err != nil {
			return err
		}
	}
	d.token()
	for _, name := range required {
		if !seen[name] {
			return errors.New(what + " lacks " + name)
		}
	}
	return nil
}

// Array reads an array; element reads one value.
func (d Document) Array(what string, element func() error) error {
	if d.token() != json.Delim('[') {
		return errors.New(what + " must be an array")
	}
	for d.dec.More() {
		if err := element(); err != nil {
			return err
		}
	}
	d.token()
	return nil
}

// Text reads a string.
func (d Document) Text(what string, into *string) error {
	text, ok := d.token().(string)
	if !ok {
		return errors.New(what + " must be a string")
	}
	*into = text
	return nil
}

// Bool reads true or false.
func (d Document) Bool(what string, into *bool) error {
	value, ok := d.token().(bool)
	if !ok {
		return errors.New(what + " must be true or false")
	}
	*into = value
	return nil
}

// Raw reads any value as the bytes it was written in.
func (d Document) Raw(into *string) error {
	var value json.RawMessage
	if err := d.dec.Decode(&value); err != nil {
		return errors.New("a value cannot be read")
	}
	*into = string(value)
	return nil
}

package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep a body may nest.
const maxDepth = 32

// checkText holds a body as a whole against the rules of text: one JSON text of
// valid UTF-8, no lone surrogates, not too deep. encoding/json puts U+FFFD in
// the place of whatever is wrong in a string, and so makes one key of many.
func checkText(body []byte) *problem {
	if !utf8.Valid(body) {
		return invalidRequest("the body is not valid UTF-8")
	}
	if !json.Valid(body) {
		return invalidRequest("the body is not one JSON text" + syntaxAt(body))
	}
	depth := 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return invalidRequest(fmt.Sprintf("the body nests deeper than %d", maxDepth))
			}
		case '}', ']':
			depth--
		case '"':
			size, ok := scanString(body[i+1:])
			if !ok {
				return invalidRequest(fmt.Sprintf("the body holds half a surrogate pair in the string at byte %d", i))
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

// document reads a checked body, member by member.
type document struct{ dec *json.Decoder }

func readDocument(body []byte) document { return document{json.NewDecoder(bytes.NewReader(body))} }

// token never fails: the text was checked.
func (d document) token() json.Token {
	token, _ := d.dec.Token()
	return token
}

// members is what an object may hold, by exact name.
type members map[string]func() *problem

// object reads an object that has every one of the required members, none
// twice and none that is not known. Names are not quoted: a key in the wrong
// place would be.
func (d document) object(what string, known members, required ...string) *problem {
	if d.token() != json.Delim('{') {
		return invalidRequest(what + " must be an object")
	}
	return d.rest(what, known, required...)
}

// rest reads an object whose brace was read.
func (d document) rest(what string, known members, required ...string) *problem {
	seen := make(map[string]bool, len(known))
	for d.dec.More() {
		name, _ := d.token().(string)
		read, ok := known[name]
		if !ok {
			return invalidRequest(what + " has a member that is not known here")
		}
		if seen[name] {
			return invalidRequest(what + " has " + name + " twice")
		}
		seen[name] = true
		if refused := read(); refused != nil {
			return refused
		}
	}
	d.token()
	for _, name := range required {
		if !seen[name] {
			return invalidRequest(what + " lacks " + name)
		}
	}
	return nil
}

func (d document) array(what string, element func() *problem) *problem {
	if d.token() != json.Delim('[') {
		return invalidRequest(what + " must be an array")
	}
	for d.dec.More() {
		if refused := element(); refused != nil {
			return refused
		}
	}
	d.token()
	return nil
}

// text reads a string into into.
func (d document) text(what string, into *string) *problem {
	text, ok := d.token().(string)
	if !ok {
		return invalidRequest(what + " must be a string")
	}
	*into = text
	return nil
}

func (d document) boolean(what string, into *bool) *problem {
	value, ok := d.token().(bool)
	if !ok {
		return invalidRequest(what + " must be true or false")
	}
	*into = value
	return nil
}

// raw reads any value as the bytes it was written in.
func (d document) raw(into *string) *problem {
	var value json.RawMessage
	if err := d.dec.Decode(&value); err != nil {
		return invalidRequest("a value cannot be read")
	}
	*into = string(value)
	return nil
}

// b64 reads base64url as decodeB64 does.
func (d document) b64(what string, into *string) *problem {
	var text string
	if refused := d.text(what, &text); refused != nil {
		return refused
	}
	decoded, ok := decodeB64(text)
	if !ok {
		return invalidRequest(what + " must be canonical base64url without padding")
	}
	*into = decoded
	return nil
}

// Package web is the part of the web platform that scripts find beside the
// language: URL, URLSearchParams, TextEncoder, TextDecoder, atob, btoa and
// crypto.
//
// What holds state is JavaScript (prelude.js); what is about bytes is Go. It
// does no I/O. JSON.parse and RegExp are replaced here too, where the engine's
// own would end the process or answer wrongly.
package web

import (
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"

	"github.com/cocache/cocache/loaders/js/encode"
)

//go:embed prelude.js
var prelude string

// Source is the name under which this package's script code is in stacks.
const Source = "prelude.js"

// Compile compiles what Install runs. The result may be shared.
func Compile() (*goja.Program, error) {
	tree, err := goja.Parse(Source, prelude, parser.WithDisableSourceMaps)
	if err != nil {
		return nil, fmt.Errorf("parse prelude: %w", err)
	}
	return goja.CompileAST(tree, true)
}

// Install puts the platform into a fresh runtime.
func Install(rt *goja.Runtime, program *goja.Program, vs *encode.Values) error {
	setup, err := rt.RunProgram(program)
	if err != nil {
		return fmt.Errorf("run prelude: %w", err)
	}
	call, ok := goja.AssertFunction(setup)
	if !ok {
		return fmt.Errorf("run prelude: it is no function")
	}
	n := natives{rt, vs}
	if _, err := call(goja.Undefined(), n.object(), rt.GlobalObject()); err != nil {
		return fmt.Errorf("run prelude: %w", err)
	}
	return nil
}

type natives struct {
	rt *goja.Runtime
	vs *encode.Values
}

func (n natives) object() goja.Value {
	o := n.rt.NewObject()
	for name, f := range map[string]func(goja.FunctionCall) goja.Value{
		"parseForm": n.parseForm, "formatForm": n.formatForm, "parseURL": n.parseURL, "setURL": n.setURL,
		"encodeText": n.encodeText, "decodeText": n.decodeText, "randomUUID": n.randomUUID, "fillRandom": n.fillRandom,
		"parseJSON": n.parseJSON, "atob": n.atob, "btoa": n.btoa,
	} {
		if err := o.Set(name, f); err != nil {
			panic(err)
		}
	}
	return o
}

// throw makes err the script's TypeError; an exception stays what it is.
func (n natives) throw(err error) {
	if ex, ok := err.(*goja.Exception); ok {
		panic(ex.Value())
	}
	panic(n.rt.NewTypeError("%s", err.Error()))
}

// parseJSON throws the SyntaxError of the built-in parser, and one of ours for
// what would be too deep for it.
func (n natives) parseJSON(c goja.FunctionCall) goja.Value {
	v, err := n.vs.ParseJSON(c.Argument(0), c.Argument(1))
	switch err := err.(type) {
	case nil:
		return v
	case *goja.Exception:
		panic(err.Value())
	case *goja.InterruptedError, *goja.StackOverflowError:
		panic(err)
	default:
		panic(n.rt.NewTypeError("%s", err.Error()))
	}
}

func (n natives) encodeText(c goja.FunctionCall) goja.Value {
	return n.vs.NewBytes([]byte(c.Argument(0).String()))
}

func (n natives) decodeText(c goja.FunctionCall) goja.Value {
	b, _ := encode.Bytes(c.Argument(0))
	if !c.Argument(2).ToBoolean() {
		b = []byte(strings.TrimPrefix(string(b), "\ufeff"))
	}
	v, err := n.vs.NewText(b)
	if err == nil {
		return v
	}
	if c.Argument(1).ToBoolean() {
		n.throw(err)
	}
	return n.rt.ToValue(replaceInvalid(b))
}

func (n natives) randomUUID(goja.FunctionCall) goja.Value {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return n.rt.ToValue(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}

func (n natives) fillRandom(c goja.FunctionCall) goja.Value {
	b, _ := encode.Bytes(c.Argument(0))
	_, _ = rand.Read(b) // it never fails
	return goja.Undefined()
}

// atob decodes as browsers do: blanks are skipped and padding may be missing.
func (n natives) atob(c goja.FunctionCall) goja.Value {
	text := strings.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\n\f\r", r) {
			return -1
		}
		return r
	}, c.Argument(0).String())
	if len(text)%4 == 0 {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "="), "=")
	}
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		n.throw(fmt.Errorf("atob: the text is not base64"))
	}
	units := make([]uint16, len(b))
	for i, c := range b {
		units[i] = uint16(c)
	}
	return goja.StringFromUTF16(units)
}

func (n natives) btoa(c goja.FunctionCall) goja.Value {
	s, _ := c.Argument(0).(goja.String)
	b := make([]byte, s.Length())
	for i := range b {
		u := s.CharAt(i)
		if u > 0xff {
			n.throw(fmt.Errorf("btoa: a character beyond U+00FF; encode the text to bytes first"))
		}
		b[i] = byte(u)
	}
	return n.rt.ToValue(base64.StdEncoding.EncodeToString(b))
}

package encode

import (
	"math/big"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dop251/goja"
)

type kind uint8

const (
	otherKind kind = iota
	arrayKind
	plainKind
	dateKind
)

func (vs *Values) kind(o *goja.Object) kind {
	switch o.ExportType() {
	case reflect.TypeFor[goja.Proxy]():
		return otherKind
	case reflect.TypeFor[time.Time]():
		return dateKind
	}
	switch o.ClassName() {
	case "Date":
		return dateKind
	case "Array":
		return arrayKind
	case "Object":
		// A Map and its like are of this class too, but not of this type.
		if p := o.Prototype(); o.ExportType().Kind() == reflect.Map && (p == nil || p == vs.object) {
			return plainKind
		}
	}
	return otherKind
}

// IsMap is true for a Map.
func IsMap(v goja.Value) bool {
	o, ok := v.(*goja.Object)
	return ok && o.ExportType() == reflect.TypeFor[[][2]any]()
}

// IsArray is true for an array.
func IsArray(v goja.Value) bool {
	o, ok := v.(*goja.Object)
	return ok && o.ClassName() == "Array"
}

// Bytes are those of a Uint8Array or an ArrayBuffer. They are the script's:
// copy what is kept.
func Bytes(v goja.Value) ([]byte, bool) {
	o, ok := v.(*goja.Object)
	if !ok {
		return nil, false
	}
	switch o.ExportType() {
	case reflect.TypeFor[[]byte]():
		b, ok := o.Export().([]byte)
		return b, ok
	case reflect.TypeFor[goja.ArrayBuffer]():
		b, ok := o.Export().(goja.ArrayBuffer)
		return b.Bytes(), ok
	}
	return nil, false
}

// Text is the UTF-8 of a string, false when it has none.
func Text(v goja.Value) (string, bool) {
	s := v.String()
	if !strings.ContainsRune(s, utf8.RuneError) {
		return s, true
	}
	js, ok := v.(goja.String)
	if !ok {
		return s, true
	}
	for i := 0; i < js.Length(); i++ {
		switch c := js.CharAt(i); {
		case c >= 0xD800 && c < 0xDC00 && i+1 < js.Length() && js.CharAt(i+1)>>10 == 0xDC00>>10:
			i++
		case c >= 0xD800 && c < 0xE000:
			return "", false
		}
	}
	return s, true
}

func bigOf(v goja.Value) *big.Int {
	n, _ := v.Export().(*big.Int)
	if n == nil {
		return new(big.Int)
	}
	return n
}

// Describe names a value's sort, for messages. It runs no script code.
func Describe(v goja.Value) string {
	switch {
	case v == nil || goja.IsUndefined(v):
		return "undefined"
	case goja.IsNull(v):
		return "null"
	case goja.IsString(v):
		return "a string"
	case goja.IsBigInt(v):
		return "a bigint"
	case goja.IsNumber(v):
		return "a number"
	}
	switch v := v.(type) {
	case *goja.Symbol:
		return "a Symbol"
	case *goja.Object:
		return describeObject(v)
	}
	return "a boolean"
}

func describeObject(o *goja.Object) string {
	switch t := o.ExportType(); t {
	case reflect.TypeFor[goja.Proxy]():
		return "a Proxy"
	case reflect.TypeFor[*goja.Promise]():
		return "a Promise (await it)"
	case reflect.TypeFor[[]byte](), reflect.TypeFor[goja.ArrayBuffer]():
		return "bytes"
	default:
		if t != nil && t.Kind() == reflect.Func {
			return "a function"
		}
	}
	switch class := o.ClassName(); class {
	case "Array", "Error":
		return "an " + class
	case "Function", "AsyncFunction", "GeneratorFunction":
		return "a function"
	case "Object":
		switch p := o.Prototype(); {
		case p == nil || p.Prototype() == nil && o.ExportType().Kind() == reflect.Map:
			return "an object"
		case IsMap(o):
			return "a Map"
		case o.ExportType() == reflect.TypeFor[[]any]():
			return "a Set"
		}
		return "an object of a class"
	default:
		return "a " + class
	}
}

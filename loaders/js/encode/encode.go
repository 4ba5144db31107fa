// Package encode turns a script's values into the bytes that a namespace
// stores, and back.
//
// A value is either encoded exactly or refused with an error that names where
// in the value the trouble is: nothing is rounded, left out or replaced.
// Walking a value runs script code (getters), so whatever is exported here is
// to be called on the script's goroutine, inside a native function, and inside
// the limits of the call; exceptions of the script pass through as panics of
// goja.
package encode

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dop251/goja"
)

// MaxDepth is how deep a value may be nested.
const MaxDepth = 256

// checkEvery is the number of steps after which a walk asks whether to go on:
// it may run for long without entering script code.
const checkEvery = 1024

// ErrTooLarge: the encoded value is longer than it may be.
var ErrTooLarge = errors.New("the encoded value is too large")

// Error says what cannot be encoded, and where it is in the value.
type Error struct{ Path, What string }

func (e *Error) Error() string {
	if e.Path == "" {
		return "value: " + e.What
	}
	return e.Path + ": " + e.What
}

// Values knows one runtime's values. It holds on to the built-in functions
// that it needs, so that a script which replaces them changes nothing here.
type Values struct {
	rt       *goja.Runtime
	object   *goja.Object // Object.prototype
	uint8    *goja.Object // Uint8Array
	dateCtor *goja.Object
	keys     goja.Callable
	iso      goja.Callable
	parse    goja.Callable
	stop     func() error
	max      int64
}

// New is to be called before any script code ran. stop is asked now and then
// whether a long walk is to end; max bounds the bytes of one value, 0 leaves
// it unbounded.
func New(rt *goja.Runtime, max int64, stop func() error) *Values {
	v := &Values{rt: rt, stop: stop, max: max}
	v.uint8 = rt.Get("Uint8Array").ToObject(rt)
	object := rt.Get("Object").ToObject(rt)
	v.object = object.Get("prototype").ToObject(rt)
	v.keys = callable(object, "keys")
	v.dateCtor = rt.Get("Date").ToObject(rt)
	v.iso = callable(v.dateCtor.Get("prototype").ToObject(rt), "toISOString")
	v.parse = callable(rt.Get("JSON").ToObject(rt), "parse")
	return v
}

func callable(o *goja.Object, name string) goja.Callable {
	f, ok := goja.AssertFunction(o.Get(name))
	if !ok {
		panic("encode: no built-in " + name)
	}
	return f
}

// Encode is v in the codec "json", "string", "msgpack" or "raw".
func (vs *Values) Encode(v goja.Value, codec string) ([]byte, error) {
	if b, ok := Bytes(v); ok && codec == "raw" {
		return vs.sized(slices.Clone(b))
	}
	switch codec {
	case "json":
		return vs.walk(v, &jsonSink{buf: buf{max: vs.max}})
	case "msgpack":
		return vs.walk(v, newMsgpackSink(vs.max))
	}
	if v == nil || !goja.IsString(v) {
		want := "a string"
		if codec == "raw" {
			want = "a string or bytes"
		}
		return nil, &Error{What: fmt.Sprintf("%s, but the codec %s takes %s", Describe(v), codec, want)}
	}
	s, ok := Text(v)
	if !ok {
		return nil, &Error{What: loneSurrogate}
	}
	return vs.sized([]byte(s))
}

func (vs *Values) sized(b []byte) ([]byte, error) {
	if vs.max > 0 && int64(len(b)) > vs.max {
		return nil, ErrTooLarge
	}
	return b, nil
}

const loneSurrogate = "a string with half a surrogate pair, which has no UTF-8"

// sink writes one format. The walk calls it in the order of the value.
type sink interface {
	null()
	boolean(b bool)
	number(v goja.Value)
	bigint(n *big.Int) error
	text(s string)
	bytes(b []byte) error
	date(t time.Time, iso string) error
	begin(array bool, n int)
	element(i int)
	key(i int, name string)
	end(array bool)
	result() []byte
	over() bool // too large already
}

// walk is one walk over one value.
func (vs *Values) walk(v goja.Value, out sink) ([]byte, error) {
	w := walk{Values: vs, out: out}
	if err := w.value(v); err != nil {
		return nil, err
	}
	if out.over() {
		return nil, ErrTooLarge
	}
	return out.result(), nil
}

type walk struct {
	*Values
	out   sink
	path  []string
	above []*goja.Object // the objects that hold the current value
	steps int
}

func (w *walk) fail(format string, args ...any) error {
	return &Error{Path: strings.Join(w.path, ""), What: fmt.Sprintf(format, args...)}
}

func (w *walk) value(v goja.Value) error {
	if err := w.step(); err != nil {
		return err
	}
	if o, ok := v.(*goja.Object); ok {
		return w.objectValue(o)
	}
	switch {
	case v == nil || goja.IsUndefined(v):
		return w.fail("undefined")
	case goja.IsNull(v):
		w.out.null()
	case goja.IsString(v):
		return w.text(v)
	case goja.IsBigInt(v):
		if err := w.out.bigint(bigOf(v)); err != nil {
			return w.fail("%v", err)
		}
	case goja.IsNumber(v):
		if f := v.ToFloat(); math.IsNaN(f) || math.IsInf(f, 0) {
			return w.fail("%s", v.String())
		}
		w.out.number(v)
	case v.ExportType() != nil && v.ExportType().Kind() == reflect.Bool:
		w.out.boolean(v.ToBoolean())
	default:
		return w.fail("%s", Describe(v))
	}
	return nil
}

func (w *walk) step() error {
	if w.out.over() {
		return ErrTooLarge
	}
	w.steps++
	if w.steps%checkEvery == 0 && w.stop != nil {
		return w.stop()
	}
	return nil
}

func (w *walk) text(v goja.Value) error {
	s, ok := Text(v)
	if !ok {
		return w.fail(loneSurrogate)
	}
	if w.max > 0 && int64(len(s)) > w.max {
		return ErrTooLarge
	}
	w.out.text(s)
	return nil
}

func (w *walk) objectValue(o *goja.Object) error {
	if b, ok := Bytes(o); ok {
		if w.max > 0 && int64(len(b)) > w.max {
			return ErrTooLarge
		}
		if err := w.out.bytes(b); err != nil {
			return w.fail("%v", err)
		}
		return nil
	}
	switch kind := w.kind(o); kind {
	case dateKind:
		return w.dateValue(o)
	case arrayKind, plainKind:
		return w.container(o, kind == arrayKind)
	}
	return w.fail("%s", Describe(o))
}

func (w *walk) dateValue(o *goja.Object) error {
	t, ok := o.Export().(time.Time)
	if !ok {
		return w.fail("an invalid Date")
	}
	iso, err := w.iso(o)
	if err != nil {
		return w.fail("a Date without a text")
	}
	if err := w.out.date(t, iso.String()); err != nil {
		return w.fail("%v", err)
	}
	return nil
}

func (w *walk) container(o *goja.Object, array bool) error {
	if slices.Contains(w.above, o) {
		return w.fail("a cycle")
	}
	if len(w.above) == MaxDepth {
		return &Error{Path: shortened(w.path), What: fmt.Sprintf("nested deeper than %d", MaxDepth)}
	}
	w.above = append(w.above, o)
	var err error
	if array {
		err = w.array(o)
	} else {
		err = w.members(o)
	}
	w.above = w.above[:len(w.above)-1]
	return err
}

func (w *walk) array(o *goja.Object) error {
	n := int(o.Get("length").ToInteger())
	w.out.begin(true, n)
	for i := range n {
		w.out.element(i)
		index := strconv.Itoa(i)
		w.path = append(w.path, "["+index+"]")
		if err := w.value(o.Get(index)); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	w.out.end(true)
	return nil
}

func (w *walk) members(o *goja.Object) error {
	names, err := w.names(o)
	if err != nil {
		return err
	}
	w.out.begin(false, len(names))
	for i, name := range names {
		w.out.key(i, name)
		w.path = append(w.path, segment(name))
		if err := w.value(o.Get(name)); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	w.out.end(false)
	return nil
}

// names are the object's own enumerable ones. Keys replaces what has no UTF-8,
// so a name with a replacement character is looked at as the script has it.
func (w *walk) names(o *goja.Object) ([]string, error) {
	names := o.Keys()
	if !slices.ContainsFunc(names, func(s string) bool { return strings.ContainsRune(s, utf8.RuneError) }) {
		return names, nil
	}
	list, err := w.keys(goja.Undefined(), o)
	if err != nil {
		return nil, w.fail("its names cannot be read")
	}
	for i, name := range names {
		if _, ok := Text(list.ToObject(w.rt).Get(strconv.Itoa(i))); !ok {
			return nil, w.fail("the name %q: %s", name, loneSurrogate)
		}
	}
	return names, nil
}

func segment(name string) string {
	for i, r := range name {
		letter := r == '_' || r == '$' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return "[" + strconv.Quote(name) + "]"
		}
	}
	if name == "" {
		return `[""]`
	}
	return "." + name
}

// shortened leaves of a deep path what a reader can use.
func shortened(path []string) string {
	if len(path) > 8 {
		return strings.Join(path[:8], "") + "…"
	}
	return strings.Join(path, "")
}

package encode

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/dop251/goja"
	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// MaxJSONDepth is how deep a JSON text may be nested that a script parses.
const MaxJSONDepth = 1000

// errNotUTF8: text that a script asked for is none.
var errNotUTF8 = errors.New("the bytes are not UTF-8")

// NewBytes is a Uint8Array that owns b.
func (vs *Values) NewBytes(b []byte) goja.Value {
	o, err := vs.rt.New(vs.uint8, vs.rt.ToValue(vs.rt.NewArrayBuffer(b)))
	if err != nil {
		panic(err)
	}
	return o
}

// NewText is a string of UTF-8 bytes.
func (vs *Values) NewText(b []byte) (goja.Value, error) {
	if !utf8.Valid(b) {
		return nil, errNotUTF8
	}
	return vs.rt.ToValue(string(b)), nil
}

// ParseJSON is JSON.parse, which may throw.
func (vs *Values) ParseJSON(text goja.Value, more ...goja.Value) (goja.Value, error) {
	if depth(text.String()) > MaxJSONDepth {
		return nil, fmt.Errorf("the JSON text is nested deeper than %d", MaxJSONDepth)
	}
	return vs.parse(goja.Undefined(), append([]goja.Value{text}, more...)...)
}

// depth is how deep a JSON text is nested at most. The built-in parser
// recurses, and a goroutine's stack that overflows ends the whole process.
func depth(s string) int {
	if strings.Count(s, "[")+strings.Count(s, "{") <= MaxJSONDepth {
		return 0
	}
	deepest, now := 0, 0
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '[' || c == '{'):
			now++
			deepest = max(deepest, now)
		case !quoted && (c == ']' || c == '}'):
			now--
		}
	}
	return deepest
}

// Decode is the value that b is in a codec.
func (vs *Values) Decode(b []byte, codec string) (goja.Value, error) {
	switch codec {
	case "json":
		text, err := vs.NewText(b)
		if err != nil {
			return nil, err
		}
		return vs.ParseJSON(text)
	case "string":
		return vs.NewText(b)
	case "msgpack":
		if err := checkMsgpack(b); err != nil {
			return nil, err
		}
		d := decoder{vs, msgpack.NewDecoder(bytes.NewReader(b))}
		return d.value(0)
	}
	return vs.NewBytes(bytes.Clone(b)), nil
}

// decoder reads msgpack that was checked.
type decoder struct {
	*Values
	dec *msgpack.Decoder
}

func (d decoder) value(depth int) (goja.Value, error) {
	if depth > MaxDepth {
		return nil, fmt.Errorf("the msgpack value is nested deeper than %d", MaxDepth)
	}
	c, err := d.dec.PeekCode()
	if err != nil {
		return nil, err
	}
	switch {
	case msgpcode.IsFixedMap(c), c == msgpcode.Map16, c == msgpcode.Map32:
		return d.object(depth)
	case msgpcode.IsFixedArray(c), c == msgpcode.Array16, c == msgpcode.Array32:
		return d.array(depth)
	case msgpcode.IsBin(c):
		b, err := d.dec.DecodeBytes()
		return d.NewBytes(b), err
	case msgpcode.IsExt(c):
		t, err := d.dec.DecodeTime()
		if err != nil {
			return nil, err
		}
		return d.rt.New(d.dateCtor, d.rt.ToValue(t.UnixMilli()))
	}
	v, err := d.dec.DecodeInterfaceLoose()
	if err != nil {
		return nil, err
	}
	return d.scalar(v)
}

func (d decoder) scalar(v any) (goja.Value, error) {
	switch v := v.(type) {
	case nil:
		return goja.Null(), nil
	case int64:
		if v > maxSafe || v < -maxSafe {
			return d.rt.ToValue(big.NewInt(v)), nil
		}
	case uint64:
		if v > maxSafe {
			return d.rt.ToValue(new(big.Int).SetUint64(v)), nil
		}
		return d.rt.ToValue(int64(v)), nil
	case string:
		return d.NewText([]byte(v))
	}
	return d.rt.ToValue(v), nil
}

func (d decoder) array(depth int) (goja.Value, error) {
	n, err := d.dec.DecodeArrayLen()
	if err != nil {
		return nil, err
	}
	items := make([]any, n)
	for i := range items {
		if items[i], err = d.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return d.rt.NewArray(items...), nil
}

func (d decoder) object(depth int) (goja.Value, error) {
	n, err := d.dec.DecodeMapLen()
	if err != nil {
		return nil, err
	}
	o := d.rt.NewObject()
	for range n {
		name, err := d.dec.DecodeString()
		if err != nil {
			return nil, fmt.Errorf("read a name: %w", err)
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if err := o.DefineDataProperty(name, v, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_TRUE); err != nil {
			return nil, err
		}
	}
	return o, nil
}

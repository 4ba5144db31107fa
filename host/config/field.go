package config

import (
	"errors"
	"slices"
	"strings"

	"github.com/cocache/cocache/host/config/document"
)

// section is the table of the fields of one mapping. Everything that is known
// about a field stands in its table: reading a file, the schema and the
// reference are made from the same rows.
type section []field

type field struct {
	name string
	doc  string // one line for the reference
	value
	required bool
	secret   bool
}

// value reads one kind of value into a place that its constructor was given.
type value struct {
	kind   string   // for the schema: "duration", "size", "word", …
	words  []string // that may stand instead of, or are, the value
	fields section  // of a mapping
	read   func(*reader, *document.Node)
	show   func() string // the place's content as a file would write it
}

func (s section) names() []string {
	names := make([]string, len(s))
	for i, f := range s {
		names[i] = f.name
	}
	return names
}

func (s section) find(name string) *field {
	if i := slices.IndexFunc(s, func(f field) bool { return f.name == name }); i >= 0 {
		return &s[i]
	}
	return nil
}

// reader reads a tree of nodes into plain values and notes what is wrong.
type reader struct {
	*document.Faults
	expander
	failed   map[*document.Node]bool
	warnings *document.Faults

	// defaults and namespaces are kept until the other sections are read.
	defaults, namespaces *document.Node
}

func newReader(file, text string, x expander) *reader {
	return &reader{
		Faults: document.NewFaults(file, text), expander: x, failed: map[*document.Node]bool{},
		warnings: document.NewFaults(file, text),
	}
}

func (r *reader) warn(n *document.Node, message string) {
	r.warnings.Add(n.At, n.Path, "%s", message)
}

func (r *reader) fail(n *document.Node, format string, args ...any) {
	r.failed[n] = true
	r.Add(n.At, n.Path, format, args...)
}

// failKey is for what is wrong with a mapping as a whole.
func (r *reader) failKey(n *document.Node, format string, args ...any) {
	r.failed[n] = true
	r.Add(n.Key, n.Path, format, args...)
}

func (r *reader) section(n *document.Node, fields section) {
	if !r.isMapping(n) {
		return
	}
	for _, e := range n.Entries {
		if f := fields.find(e.Name); f != nil {
			f.read(r, e.Value)
			continue
		}
		r.unknown(e, fields.names())
	}
	for _, f := range fields {
		if f.required && n.Get(f.name) == nil {
			r.Add(n.Key, document.Join(n.Path, f.name), "is missing: %s", f.doc)
		}
	}
}

func (r *reader) isMapping(n *document.Node) bool {
	switch n.Kind {
	case document.Mapping:
		return true
	case document.Broken:
		r.failed[n] = true
	case document.Null:
		r.failKey(n, "has nothing under it: leave it out or give it fields")
	default:
		r.fail(n, "must be a mapping (field: value), is %s", n.Kind)
	}
	return false
}

func (r *reader) unknown(e document.Entry, known []string) {
	hint := "known here: " + strings.Join(known, ", ")
	if meant := document.Closest(e.Name, known); meant != "" {
		hint = "did you mean \"" + meant + "\"?"
	}
	r.failKey(e.Value, "unknown field; %s", hint)
}

// scalar is the text of a single value after expansion.
func (r *reader) scalar(n *document.Node) (string, bool) {
	text, ok := r.literal(n)
	if !ok {
		return "", false
	}
	text, err := r.expand(text)
	if err == nil && strings.Contains(text, "\x00") {
		err = errors.New("holds a NUL")
	}
	if err != nil {
		r.fail(n, "%s", err)
		return "", false
	}
	return text, true
}

// literal is the text of a single value as it was written.
func (r *reader) literal(n *document.Node) (string, bool) {
	switch n.Kind {
	case document.Scalar:
		return n.Text, true
	case document.Broken:
		r.failed[n] = true
	case document.Null:
		r.fail(n, "has no value")
	default:
		r.fail(n, "must be a single value, is %s", n.Kind)
	}
	return "", false
}

func nested(fields section) value {
	return value{kind: "mapping", fields: fields, read: func(r *reader, n *document.Node) { r.section(n, fields) }}
}

// refused is a field that is known and not allowed where it stands.
func refused(reason string) value {
	return value{kind: "refused", read: func(r *reader, n *document.Node) { r.failKey(n, "%s", reason) }}
}

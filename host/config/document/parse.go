package document

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxDepth keeps the library's recursion, and ours, far from the stack's end.
const maxDepth = 64

// Parse reads one YAML document; nil after a fault that leaves nothing to go
// on with.
func Parse(text string, fs *Faults) *Node {
	if !checkText(text, fs) {
		return nil
	}
	file, ok := parseFile(text, fs)
	if !ok {
		return nil
	}
	for _, doc := range file.Docs[min(1, len(file.Docs)):] {
		fs.Add(documentPosition(doc), "", "a second document: a configuration is one YAML document without directives")
		return nil
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		fs.Add(Position{1, 1}, "", "the file is empty")
		return nil
	}
	c := converter{fs}
	return c.node(file.Docs[0].Body, "", Position{1, 1})
}

// checkText refuses what is no text at all.
func checkText(text string, fs *Faults) bool {
	at := Position{1, 1}
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"):
			fs.Add(at, "", "not UTF-8 text")
			return false
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7f:
			fs.Add(at, "", "a control character (%#x) is not allowed", r)
			return false
		}
		at.Column++
		if r == '\n' {
			at = Position{at.Line + 1, 1}
		}
	}
	return true
}

func parseFile(text string, fs *Faults) (file *ast.File, ok bool) {
	// The library is given whatever an operator typed; should it panic, that is
	// a file it cannot read.
	defer func() {
		if p := recover(); p != nil {
			fs.Add(Position{1, 1}, "", "not YAML: the parser gave up")
			file, ok = nil, false
		}
	}()
	tokens := lexer.Tokenize(text)
	if at, deep := tooDeep(tokens); deep {
		fs.Add(at, "", "nested more than %d deep", maxDepth)
		return nil, false
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, message := syntaxError(err, fs.lines)
		fs.Add(at, "", "%s", message)
		return nil, false
	}
	return file, true
}

// tooDeep looks for nesting that costs one character a level; nesting by
// indentation grows too slowly to matter.
func tooDeep(tokens token.Tokens) (Position, bool) {
	flow, inline, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, inline = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType:
			inline++
		}
		if flow > maxDepth || inline > maxDepth {
			return place(t), true
		}
	}
	return Position{}, false
}

func syntaxError(err error, lines []string) (Position, string) {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil {
		return Position{1, 1}, "not YAML: " + firstLine(err.Error())
	}
	at, message := place(e.GetToken()), firstLine(e.GetMessage())
	switch {
	case strings.HasPrefix(message, "found character '\t'"):
		return at, "a tab is not allowed here: indent with blanks"
	case at.Line <= len(lines) && strings.Contains(lines[at.Line-1], "${"):
		message += " (a ${…} between { } or [ ] must stand in quotes)"
	}
	return at, "not YAML: " + message
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

func place(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{1, 1}
	}
	return Position{t.Position.Line, t.Position.Column}
}

func documentPosition(doc *ast.DocumentNode) Position {
	switch {
	case doc.Start != nil:
		return place(doc.Start)
	case doc.Body != nil:
		return place(doc.Body.GetToken())
	}
	return Position{1, 1}
}

const noAnchors = "anchors and aliases are not supported: use defaults for what namespaces share"

// converter turns the library's tree into nodes.
type converter struct{ fs *Faults }

func (c converter) node(n ast.Node, path string, key Position) *Node {
	out := &Node{Path: path, Key: key, At: key}
	if n == nil {
		return out
	}
	if t := n.GetToken(); t != nil && t.Type != token.ImplicitNullType {
		out.At = place(t)
	}
	switch v := n.(type) {
	case *ast.NullNode:
	case *ast.MappingNode:
		c.mapping(out, v.Values)
	case *ast.MappingValueNode:
		c.mapping(out, []*ast.MappingValueNode{v})
	case *ast.SequenceNode:
		c.list(out, v)
	case *ast.LiteralNode:
		out.Kind, out.Text = Scalar, v.Value.Value
	case *ast.StringNode:
		out.Kind, out.Text = Scalar, v.Value
	case *ast.AnchorNode:
		c.fs.Add(out.At, path, noAnchors)
		return c.node(v.Value, path, key)
	case *ast.AliasNode:
		c.fs.Add(out.At, path, noAnchors)
		out.Kind = Broken
	case *ast.TagNode:
		c.fs.Add(out.At, path, "tags (%s) are not supported", v.GetToken().Value)
		return c.node(v.Value, path, key)
	case ast.ScalarNode: // numbers, booleans and the like
		out.Kind, out.Text = Scalar, n.GetToken().Value
	default:
		c.fs.Add(out.At, path, "not supported: %s", n.Type())
		out.Kind = Broken
	}
	return out
}

func (c converter) list(out *Node, v *ast.SequenceNode) {
	out.Kind = List
	for i, item := range v.Values {
		at := out.At
		if item != nil {
			at = place(item.GetToken())
		}
		out.Items = append(out.Items, c.node(item, fmt.Sprintf("%s[%d]", out.Path, i), at))
	}
}

func (c converter) mapping(out *Node, values []*ast.MappingValueNode) {
	out.Kind = Mapping
	if len(values) > 0 && values[0].Key != nil && out.At == place(values[0].GetToken()) && !values[0].IsFlowStyle {
		out.At = place(values[0].Key.GetToken())
	}
	seen := map[string]Position{}
	for _, v := range values {
		name, at, ok := c.key(out.Path, v.Key)
		if !ok {
			continue
		}
		path := Join(out.Path, name)
		if first, twice := seen[name]; twice {
			c.fs.Add(at, path, "written twice: first in line %d", first.Line)
			continue
		}
		seen[name] = at
		out.Entries = append(out.Entries, Entry{name, c.node(v.Value, path, at)})
	}
}

// key is the text of a key as it was written: the library would turn 0123
// into 83.
func (c converter) key(parent string, key ast.MapKeyNode) (string, Position, bool) {
	t := key.GetToken()
	at := place(t)
	switch v := key.(type) {
	case *ast.StringNode:
		return v.Value, at, true
	case *ast.MergeKeyNode:
		c.fs.Add(at, parent, "merge keys (<<) are not supported: use defaults for what namespaces share")
	case *ast.AnchorNode, *ast.AliasNode:
		c.fs.Add(at, parent, noAnchors)
	case *ast.TagNode, *ast.MappingKeyNode:
		c.fs.Add(at, parent, "a key must be plain text")
	default:
		if t.Type != token.ImplicitNullType {
			return t.Value, at, true
		}
		c.fs.Add(at, parent, "a key is missing before the colon")
	}
	return "", at, false
}

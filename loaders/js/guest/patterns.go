package guest

import (
	"reflect"
	"regexp"
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/file"
)

var propertyEscape = regexp.MustCompile(`\\[pP]\{`)

// checkPatterns refuses \p{…} in regular expressions, which the engine answers
// wrongly: for literals, and for texts given to RegExp. A pattern that is put
// together while running is refused then.
func checkPatterns(name string, tree *ast.Program) error {
	p := patterns{seen: map[any]bool{}}
	p.walk(reflect.ValueOf(tree.Body))
	if !p.found {
		return nil
	}
	at := tree.File.Position(int(p.at) - tree.File.Base())
	return &SyntaxError{
		File: name, Line: at.Line, Column: at.Column + 1, // mapped positions count from 0
		Message: `\p{…} in a regular expression is not supported; list the characters, e.g. [A-Za-zÀ-ÿ]`,
	}
}

// patterns walks a tree by reflection: the engine has no visitor for its
// trees, and a walker of our own would have to follow each of its node types.
type patterns struct {
	seen  map[any]bool
	found bool
	at    file.Idx
}

func (p *patterns) walk(v reflect.Value) {
	if p.found {
		return
	}
	switch v.Kind() {
	case reflect.Interface:
		p.walk(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			p.walk(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				p.walk(v.Field(i))
			}
		}
	case reflect.Pointer:
		p.pointer(v)
	}
}

func (p *patterns) pointer(v reflect.Value) {
	if v.IsNil() || v.Type().Elem() == reflect.TypeFor[file.File]() || p.seen[v.Interface()] {
		return
	}
	p.seen[v.Interface()] = true
	switch n := v.Interface().(type) {
	case *ast.RegExpLiteral:
		p.check(n.Pattern, n.Idx)
	case *ast.NewExpression:
		p.arguments(n.Callee, n.ArgumentList)
	case *ast.CallExpression:
		p.arguments(n.Callee, n.ArgumentList)
	}
	p.walk(v.Elem())
}

func (p *patterns) arguments(callee ast.Expression, args []ast.Expression) {
	name, ok := callee.(*ast.Identifier)
	if !ok || name.Name != "RegExp" || len(args) == 0 {
		return
	}
	if s, ok := args[0].(*ast.StringLiteral); ok {
		p.check(s.Value.String(), s.Idx)
	}
}

func (p *patterns) check(pattern string, at file.Idx) {
	if !p.found && propertyEscape.MatchString(strings.ReplaceAll(pattern, `\\`, "")) {
		p.found, p.at = true, at
	}
}

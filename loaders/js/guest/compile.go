package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"
	"github.com/evanw/esbuild/pkg/api"

	"github.com/cocache/cocache/loaders/js/web"
	"github.com/cocache/cocache/runtime/loader"
)

// maxSource bounds a script: neither compiler can be interrupted.
const maxSource = 4 << 20

const (
	adviceBundle = "a loader is one file; bundle it, e.g. esbuild --bundle --format=esm"
	adviceAwait  = "await is not available outside functions; await inside load, or bundle without it"
)

// The script becomes the body of a function, so that its top level is not the
// global one and a plain `function load` can be found.
const (
	head = "(function (exports, module) {"
	tail = `;return {` +
		`load: typeof load === "function" ? load : undefined, ` +
		`loadAll: typeof loadAll === "function" ? loadAll : undefined};` + "\n})"
	mapName = "compiled.map"
)

// Program is a compiled script. It holds no state and may be used by many
// calls at once.
type Program struct {
	name           string
	main, platform *goja.Program
}

// SyntaxError is a script that cannot be compiled.
type SyntaxError struct {
	File         string
	Line, Column int // from 1
	Message      string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// Compile compiles TypeScript or JavaScript, with or without ES module syntax,
// by the extension of name. The first error ends it, as a *SyntaxError.
func Compile(name string, source []byte) (*Program, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("compile %s: the script is longer than 4MiB", name)
	}
	language, err := languageOf(name)
	if err != nil {
		return nil, err
	}
	module, err := refuseImports(name, source, language)
	if err != nil {
		return nil, err
	}
	code, mapping, err := transform(name, source, language, module)
	if err != nil {
		return nil, err
	}
	main, err := compileCode(name, code, mapping)
	if err != nil {
		return nil, err
	}
	platform, err := web.Compile()
	if err != nil {
		return nil, err
	}
	return &Program{name: name, main: main, platform: platform}, nil
}

func languageOf(name string) (api.Loader, error) {
	switch ext := path.Ext(name); ext {
	case ".ts", ".mts", ".cts":
		return api.LoaderTS, nil
	case ".js", ".mjs", ".cjs", "":
		return api.LoaderJS, nil
	default:
		return api.LoaderNone, fmt.Errorf("compile %s: a script ends in .ts, .mts, .js or .mjs, not in %s", name, ext)
	}
}

// refuseImports lets the bundler look for imports and fails at the first one.
// Only it knows which imports TypeScript erases; what it builds is dropped,
// since bundling would rename and remove. It reports whether the script is an
// ES module, whose code is strict.
func refuseImports(name string, source []byte, language api.Loader) (module bool, err error) {
	refuse := api.Plugin{Name: "one-file", Setup: func(b api.PluginBuild) {
		b.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
			switch a.Kind {
			case api.ResolveJSImportStatement, api.ResolveJSDynamicImport:
				return api.OnResolveResult{}, fmt.Errorf("import %.100q: %s", a.Path, adviceBundle)
			}
			return api.OnResolveResult{Path: a.Path, External: true}, nil
		})
	}}
	r := api.Build(api.BuildOptions{
		Stdin:  &api.StdinOptions{Contents: string(source), Sourcefile: name, Loader: language},
		Bundle: true, Write: false, LogLevel: api.LogLevelSilent, Plugins: []api.Plugin{refuse}, Format: api.FormatESModule,
		Target: api.ESNext, TsconfigRaw: "{}", Platform: api.PlatformNeutral, Metafile: true,
	})
	for _, m := range r.Errors {
		// Other errors are found again, with better words, by transform.
		if m.PluginName != "" {
			return false, syntaxError(name, m)
		}
	}
	var meta struct {
		Inputs map[string]struct{ Format string }
	}
	if len(r.Errors) == 0 {
		if err := json.Unmarshal([]byte(r.Metafile), &meta); err != nil {
			return false, fmt.Errorf("compile %s: read what the compiler says: %w", name, err)
		}
	}
	for _, input := range meta.Inputs {
		module = module || input.Format == "esm"
	}
	return module, nil
}

func transform(name string, source []byte, language api.Loader, module bool) (code string, mapping []byte, err error) {
	banner := head
	if module {
		banner += `"use strict";`
	}
	r := api.Transform(string(source), api.TransformOptions{
		Loader: language, Sourcefile: name, Format: api.FormatCommonJS, Platform: api.PlatformNeutral, Target: api.ES2017,
		// A lowered pattern would be a text, in which the check of patterns
		// has no position to name.
		Supported:   map[string]bool{"bigint": true, "regexp-unicode-property-escapes": true},
		TreeShaking: api.TreeShakingFalse, LegalComments: api.LegalCommentsNone, Charset: api.CharsetUTF8,
		LogLevel: api.LogLevelSilent, Banner: banner, Footer: tail, TsconfigRaw: "{}",
		Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude,
	})
	if len(r.Errors) > 0 {
		return "", nil, syntaxError(name, r.Errors[0])
	}
	return string(r.Code), r.Map, nil
}

func syntaxError(name string, m api.Message) error {
	e := &SyntaxError{File: name, Line: 1, Column: 1, Message: loader.Clean(m.Text)}
	if m.Location != nil {
		e.Line, e.Column = m.Location.Line, m.Location.Column+1
	}
	if strings.HasPrefix(m.Text, "Top-level await") {
		e.Message = "top-level await: " + adviceAwait
	}
	return e
}

func compileCode(name, code string, mapping []byte) (*goja.Program, error) {
	// Ours is the last line, so it is the one that is read; any other name, a
	// script's own, opens nothing.
	load := func(file string) ([]byte, error) {
		if path.Base(file) == mapName {
			return mapping, nil
		}
		return nil, errors.New("no such source map")
	}
	tree, err := goja.Parse(name, code+"\n//# sourceMappingURL="+mapName, parser.WithSourceMapLoader(load))
	if err != nil {
		return nil, engineError(name, err)
	}
	if err := checkPatterns(name, tree); err != nil {
		return nil, err
	}
	program, err := goja.CompileAST(tree, false)
	if err != nil {
		return nil, engineError(name, err)
	}
	return program, nil
}

// engineError is what only the engine finds wrong, such as a regular
// expression that it does not know.
func engineError(name string, err error) error {
	var list parser.ErrorList
	if errors.As(err, &list) && len(list) > 0 {
		p := list[0].Position
		return &SyntaxError{File: name, Line: p.Line, Column: p.Column, Message: loader.Clean(list[0].Message)}
	}
	var compiler *goja.CompilerSyntaxError
	if errors.As(err, &compiler) && compiler.File != nil {
		p := compiler.File.Position(compiler.Offset)
		return &SyntaxError{File: name, Line: p.Line, Column: p.Column + 1, Message: loader.Clean(compiler.Message)}
	}
	return fmt.Errorf("compile %s: %s", name, loader.Clean(err.Error()))
}

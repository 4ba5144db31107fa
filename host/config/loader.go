package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/cocache/cocache/host/config/document"
)

const (
	// maxSource bounds a loader's file.
	maxSource = 64 << 20
	// maxWasmMemory is what a 32-bit module can address.
	maxWasmMemory = 4 << 30
)

func newLoader() *Loader {
	return &Loader{Limits: LoaderLimits{
		MaxMemory: 64 << 20, MaxInstances: 8, MaxOutputBytes: 8 << 20, MaxHTTPRequests: 16, MaxHTTPBytes: 8 << 20,
	}}
}

// fields of a loader but for its engine.
func (l *Loader) fields() section {
	return section{
		{name: "settings", doc: "texts for the loader", value: texts(&l.Settings)},
		{name: "allow", doc: "what the loader may reach; nothing unless named", value: nested(section{
			{name: "http", doc: "origins: scheme://host[:port], * as the whole first label", value: items(&l.AllowHTTP, "origin", origin)},
			{name: "networks", doc: "private networks in which an origin may lie, as CIDR", value: items(&l.AllowNetworks, "network", network)},
		})},
		{name: "limits", doc: "of one call of the loader", value: nested(section{
			{name: "timeout", doc: "at most loads.timeout; left out: the smaller of 2s and that", value: duration(&l.Limits.Timeout)},
			{name: "max-memory", doc: "of one instance; wasm only", value: parsed(&l.Limits.MaxMemory, "size", wasmMemory, sizeText)},
			{name: "max-instances", doc: "at the same time", value: count(&l.Limits.MaxInstances, 1)},
			{name: "max-output-bytes", doc: "length of an answer", value: size(&l.Limits.MaxOutputBytes)},
			{name: "max-http-requests", doc: "of one call", value: count(&l.Limits.MaxHTTPRequests, 0)},
			{name: "max-http-bytes", doc: "bodies of one call together", value: size(&l.Limits.MaxHTTPBytes)},
		})},
	}
}

func wasmMemory(s string) (int64, error) {
	n, err := parseSize(s)
	if err == nil && n > maxWasmMemory {
		return 0, fmt.Errorf("at most %s, is %s", sizeText(maxWasmMemory), s)
	}
	return n, err
}

// source is where a loader's code is, as the file says it.
type source struct {
	wasmFile, sum, jsFile, inline string
}

func (s *source) fields() section {
	return section{
		{name: "wasm", doc: "a WebAssembly module", value: nested(section{
			{name: "file", required: true, doc: "path, relative to this file", value: text(&s.wasmFile)},
			{name: "sha256", doc: "of the file: 64 hex digits", value: parsed(&s.sum, "sha256", checksum, plain)},
		})},
		{name: "js", doc: "a script, JavaScript or TypeScript", value: nested(section{
			{name: "file", doc: "path, relative to this file; this or inline", value: text(&s.jsFile)},
			{name: "inline", doc: "the script itself, taken as written", value: verbatim(&s.inline)},
		})},
	}
}

// verbatim is a text in which ${…} means nothing: scripts are full of it.
func verbatim(dst *string) value {
	return value{kind: "text", show: func() string { return `""` }, read: func(r *reader, n *document.Node) {
		if s, ok := r.literal(n); ok {
			*dst = s
		}
	}}
}

func checksum(s string) (string, error) {
	sum := strings.ToLower(strings.TrimPrefix(s, "sha256:"))
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("not a sha256: 64 hex digits, has %d characters", len(sum))
	}
	return sum, nil
}

// loaderValue reads a loader into a namespace.
func loaderValue(ns *Namespace) value {
	l, s := newLoader(), &source{}
	v := nested(append(s.fields(), l.fields()...))
	v.read = func(r *reader, n *document.Node) {
		r.section(n, v.fields)
		if n.Kind != document.Mapping {
			return
		}
		ns.Loader = l
		r.loaderSource(n, ns.Name, l, s)
	}
	return v
}

// loaderSource settles the engine and reads its code.
func (r *reader) loaderSource(n *document.Node, name string, l *Loader, s *source) {
	wasm, js := n.Get("wasm"), n.Get("js")
	switch {
	case wasm != nil && js != nil:
		r.failKey(js, "a loader has one engine: wasm or js, not both")
	case wasm != nil:
		l.Engine = Wasm
		r.loaderFile(wasm, l, s.wasmFile)
		if given := wasm.Get("sha256"); s.sum != "" && l.SHA256 != "" && s.sum != l.SHA256 {
			r.fail(given, "the file's sha256 is %s", l.SHA256)
		}
	case js != nil:
		l.Engine = JS
		r.script(js, name, l, s)
		r.scriptLimits(n, l)
	default:
		r.failKey(n, "a loader needs an engine: wasm or js")
	}
}

// scriptLimits refuses the limit that scripts do not have. From defaults it is
// meant for the other namespaces.
func (r *reader) scriptLimits(n *document.Node, l *Loader) {
	l.Limits.MaxMemory = 0
	if m := n.Get("limits", "max-memory"); m != nil && !inherited(m) {
		r.failKey(m, "scripts run in the memory of this process, which has no limit for one of them: use wasm where that is needed")
	}
}

func (r *reader) script(js *document.Node, name string, l *Loader, s *source) {
	file, inline := js.Get("file"), js.Get("inline")
	switch {
	case js.Kind != document.Mapping: // said already
	case file != nil && inline != nil:
		r.failKey(inline, "a script is in a file or inline, not both")
	case inline != nil:
		l.Name, l.Source = name+" (inline)", []byte(s.inline)
		l.SHA256 = sum(l.Source)
		if inline.Kind == document.Scalar && strings.TrimSpace(s.inline) == "" {
			r.fail(inline, "the script is empty")
		}
	case file != nil:
		r.loaderFile(js, l, s.jsFile)
	default:
		r.failKey(js, "a script needs file or inline")
	}
}

func (r *reader) loaderFile(engine *document.Node, l *Loader, path string) {
	n := engine.Get("file")
	if n == nil || r.failed[n] {
		return
	}
	if path == "" {
		r.fail(n, "names no file")
		return
	}
	l.Name, l.File = path, resolve(r.dir, path)
	data, err := readFile(l.File, maxSource)
	if err != nil {
		r.fail(n, "file %s: %s", path, err)
		return
	}
	l.Source, l.SHA256 = data, sum(data)
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

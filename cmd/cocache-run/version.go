package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
)

type version struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// build says what this binary is made of.
type build struct {
	Version      string            `json:"version"`
	Commit       string            `json:"commit"`
	Go           string            `json:"go"`
	Dependencies map[string]string `json:"dependencies"`
}

func buildVersion() build {
	b := build{Version: "devel", Commit: "unknown", Go: runtime.Version(), Dependencies: map[string]string{}}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Commit = s.Value
		}
	}
	for _, d := range info.Deps {
		b.Dependencies[d.Path] = d.Version
	}
	return b
}

// Run prints the version.
func (v version) Run(io *streams) error {
	b := buildVersion()
	if v.JSON {
		return json.NewEncoder(io.out).Encode(b)
	}
	_, err := fmt.Fprintf(io.out, "cocache-run %s (commit %s, %s)\n", b.Version, b.Commit, b.Go)
	for _, name := range []string{"github.com/redis/rueidis", "github.com/tetratelabs/wazero", "github.com/dop251/goja",
		"github.com/maypok86/otter/v2", "github.com/alicebob/miniredis/v2"} {
		if err == nil {
			_, err = fmt.Fprintf(io.out, "  %s %s\n", name, b.Dependencies[name])
		}
	}
	return err
}

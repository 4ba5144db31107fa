// Package lua holds the scripts that make every change to an entry in L1, one
// file per verb, and reads the header comment in which each states its
// contract.
//
// A script is sent to Redis byte for byte as it stands in its file, so a SHA-1
// seen in Redis can be found here. What the states and fields mean is written
// in runtime/PROTOCOL.md. Scripts use nothing that differs between Redis 6.2
// and later, Valkey and the in-process server: no cjson, struct, bit or
// shebang line.
package lua

import (
	_ "embed"
	"fmt"
	"strings"
)

// The scripts.
var (
	//go:embed read.lua
	Read string
	//go:embed fill.lua
	Fill string
	//go:embed release.lua
	Release string
	//go:embed reclaim.lua
	Reclaim string
	//go:embed put.lua
	Put string
	//go:embed invalidate.lua
	Invalidate string
	//go:embed probe.lua
	Probe string
)

// Header is the contract that a script's first comment states.
type Header struct {
	Verb    string
	Keys    []string            // names in order; Variadic when there may be many
	Args    []string            // names in order
	Replies map[string][]string // tag to the names of what follows it
	Keeps   []string            // invariants of PROTOCOL.md
	// Variadic: KEYS takes any number of the one named key.
	Variadic bool
}

// ParseHeader reads the header of a script. It is strict: a section that is
// missing or a line it cannot place is an error.
func ParseHeader(script string) (Header, error) {
	h := Header{Replies: map[string][]string{}}
	section := ""
	for i, line := range strings.Split(script, "\n") {
		text, ok := strings.CutPrefix(line, "--")
		if !ok {
			break
		}
		text, err := strings.TrimPrefix(text, " "), error(nil)
		switch {
		case i == 0:
			h.Verb, _, ok = strings.Cut(text, ":")
			if !ok {
				err = fmt.Errorf("want `verb: purpose`")
			}
		case text == "KEYS" || text == "ARGV" || text == "Replies":
			section = text
		case strings.HasPrefix(text, "Keeps:"):
			h.Keeps = strings.Fields(text)[1:]
		case section != "" && strings.HasPrefix(text, "  "):
			err = h.item(section, text)
		case section != "":
			err = fmt.Errorf("unexpected text in section %s", section)
		}
		if err != nil {
			return h, fmt.Errorf("header line %d: %w", i+1, err)
		}
	}
	if h.Verb == "" || len(h.Keys) == 0 || len(h.Args) == 0 || len(h.Replies) == 0 || len(h.Keeps) == 0 {
		return h, fmt.Errorf("header of %q lacks a section", h.Verb)
	}
	return h, nil
}

func (h *Header) item(section, text string) error {
	item, _, _ := strings.Cut(strings.TrimSpace(text), "  ")
	words := strings.Fields(item)
	if section == "Replies" {
		return h.reply(words)
	}
	list := &h.Keys
	if section == "ARGV" {
		list = &h.Args
	}
	if len(words) < 2 {
		words = strings.Fields(text)
	}
	if len(words) < 2 {
		return fmt.Errorf("%s: want a number and a name", section)
	}
	number, name := words[0], words[1]
	if number == "*" && section == "KEYS" && len(*list) == 0 {
		h.Variadic = true
	} else if number != fmt.Sprint(len(*list)+1) || h.Variadic && section == "KEYS" {
		return fmt.Errorf("%s %s: want number %d", section, number, len(*list)+1)
	}
	*list = append(*list, name)
	return nil
}

func (h *Header) reply(words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("an empty reply")
	}
	if _, twice := h.Replies[words[0]]; twice {
		return fmt.Errorf("reply %s: there already", words[0])
	}
	h.Replies[words[0]] = words[1:]
	return nil
}

package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing wrong with a configuration file.
type Fault struct {
	File    string `json:"file"`
	Line    int    `json:"line"`   // from 1
	Column  int    `json:"column"` // in characters, from 1
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	// Excerpt is the line of the file and below it a caret; values of secret
	// fields are masked.
	Excerpt string `json:"-"`
}

func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", f.File, f.Line, f.Column)
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Message)
	if f.Excerpt != "" {
		b.WriteString("\n" + f.Excerpt)
	}
	return b.String()
}

// Error holds every fault of a file, in the order of the file.
type Error struct{ Faults []Fault }

func (e *Error) Error() string {
	texts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		texts[i] = f.String()
	}
	return strings.Join(texts, "\n")
}

// Position is a place in the file; both count from 1.
type Position struct{ Line, Column int }

// Faults collects what is wrong with one file.
type Faults struct {
	file  string
	lines []string
	list  []Fault
}

// NewFaults starts a collection for a file with this name and text.
func NewFaults(file, text string) *Faults {
	return &Faults{file: file, lines: strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")}
}

// Add notes a fault once: a fault of the defaults is found again in every
// namespace that takes them.
func (fs *Faults) Add(at Position, path, format string, args ...any) {
	if len(fs.list) >= maxFaults {
		return
	}
	f := Fault{
		File: fs.file, Line: at.Line, Column: at.Column, Path: printable(path),
		Message: printable(fmt.Sprintf(format, args...)), Excerpt: fs.excerpt(at),
	}
	if !slices.Contains(fs.list, f) {
		fs.list = append(fs.list, f)
	}
}

// List is what was noted, in that order.
func (fs *Faults) List() []Fault { return fs.list }

// Err is an *Error with all faults in the order of the file; nil when there
// are none.
func (fs *Faults) Err() error {
	if len(fs.list) == 0 {
		return nil
	}
	slices.SortStableFunc(fs.list, func(a, b Fault) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	if last := len(fs.list) - 1; last+1 >= maxFaults {
		f := fs.list[last]
		f.Path, f.Message, f.Excerpt = "", "too many faults: what follows is not shown", ""
		fs.list = append(fs.list, f)
	}
	return &Error{Faults: fs.list}
}

// maxFaults are as many as anyone reads; more come from a file that is
// something else.
const maxFaults = 100

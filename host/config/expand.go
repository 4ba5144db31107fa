package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// maxExpansion bounds a file that is put in place of ${file:…}.
const maxExpansion = 1 << 20

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expander replaces ${VAR}, ${VAR:-default}, ${file:/path} and $$ in a
// scalar, once: what came in is text and not looked at again.
type expander struct {
	env func(string) (string, bool)
	dir string // relative paths start here
}

func (x expander) expand(text string) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		b.WriteString(before)
		switch {
		case !found:
			return b.String(), nil
		case strings.HasPrefix(after, "$"):
			b.WriteByte('$')
			text = after[1:]
		case strings.HasPrefix(after, "{"):
			inner, rest, closed := strings.Cut(after[1:], "}")
			if !closed {
				return "", fmt.Errorf("${ without its }: write $$ for a plain $")
			}
			value, err := x.lookup(inner)
			if err != nil {
				return "", err
			}
			b.WriteString(value)
			text = rest
		default:
			b.WriteByte('$')
			text = after
		}
	}
}

func (x expander) lookup(inner string) (string, error) {
	if path, ok := strings.CutPrefix(inner, "file:"); ok {
		return x.file(path)
	}
	name, def, hasDefault := strings.Cut(inner, ":-")
	if !variable.MatchString(name) {
		return "", fmt.Errorf("between ${ and } stands VAR, VAR:-default or file:/path: write $$ for a plain $")
	}
	value, set := x.env(name)
	switch {
	case value == "" && hasDefault:
		return def, nil
	case !set:
		return "", fmt.Errorf("environment variable %s is not set", name)
	case strings.Contains(value, "\x00"):
		return "", fmt.Errorf("environment variable %s holds a NUL", name)
	}
	return value, nil
}

func (x expander) file(path string) (string, error) {
	if path == "" || strings.Contains(path, "\x00") {
		return "", fmt.Errorf("${file:…} names no file")
	}
	data, err := readFile(resolve(x.dir, path), maxExpansion)
	if err != nil {
		return "", fmt.Errorf("file %s: %w", path, err)
	}
	if strings.Contains(string(data), "\x00") {
		return "", fmt.Errorf("file %s holds a NUL", path)
	}
	if text, ok := strings.CutSuffix(string(data), "\r\n"); ok {
		return text, nil
	}
	return strings.TrimSuffix(string(data), "\n"), nil
}

func resolve(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// readFile reads a whole file of at most limit bytes. Its errors leave out
// the path, which the caller names as the file does.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, bare(err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("larger than %s", sizeText(limit))
	}
	return data, nil
}

func bare(err error) error {
	if e, ok := err.(*os.PathError); ok {
		return e.Err
	}
	return err
}

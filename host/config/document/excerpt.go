package document

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxLine is the length in bytes beyond which a line is no text to show.
	maxLine = 4 << 10
	// maxExcerpt is how many characters of a line an excerpt shows.
	maxExcerpt = 100
)

func (fs *Faults) excerpt(at Position) string {
	if at.Line < 1 || at.Line > len(fs.lines) {
		return ""
	}
	text := fs.lines[at.Line-1]
	if text == "" || len(text) > maxLine {
		return ""
	}
	line := []rune(printable(mask(text)))
	column := min(max(at.Column-1, 0), len(line)) // masking may have shortened the line
	start := 0
	if column > maxExcerpt*3/4 {
		start = column - maxExcerpt/2
	}
	shown := line[start:min(start+maxExcerpt, len(line))]
	// Tabs are kept, so that the caret stands below its column everywhere.
	pad := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string(shown[:column-start]))
	return "  " + strings.TrimRight(string(shown), " ") + "\n  " + pad + "^"
}

// printable keeps a file from steering the terminal that shows its faults.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

var (
	keyPattern = regexp.MustCompile(`([\w-]+)["']?\s*:\s*`)
	// reference is a value that names where a secret is and holds none.
	reference = regexp.MustCompile(`^["']?\$\{(\w+|file:[^}]*)\}["']?\s*(,|\}|$|#)`)
	secretish = regexp.MustCompile(`(?i)secret|pas+w|pwd|token|credential`)
)

// mask hides the value of whatever looks like a secret's key in a line, and
// all that follows it. It works on the text, since a line with a secret may
// be one that YAML cannot read.
func mask(line string) string {
	for _, m := range keyPattern.FindAllStringSubmatchIndex(line, -1) {
		key, value := line[m[2]:m[3]], line[m[1]:]
		if !secretish.MatchString(key) && distance(strings.ToLower(key), "password") > 2 {
			continue
		}
		if value != "" && !reference.MatchString(value) {
			return line[:m[1]] + "(secret)"
		}
	}
	return line
}

// Closest is the word that a misspelt one was meant to be; "" when none is
// near.
func Closest(wrong string, words []string) string {
	wrong = strings.ToLower(strings.ReplaceAll(wrong, "_", "-"))
	allowed := 2
	if utf8.RuneCountInString(wrong) < 5 {
		allowed = 1
	}
	best := ""
	for _, w := range words {
		if d := distance(wrong, w); d <= allowed {
			best, allowed = w, d-1
		}
	}
	return best
}

// distance counts the edits (one character put in, left out, changed, or two
// neighbours swapped) between two words.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	if len(x) > 64 {
		return len(x) // no field's name is so long
	}
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range y {
		rows[0][j+1] = j + 1
	}
	for i := range x {
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			d := min(rows[i][j+1]+1, rows[i+1][j]+1, rows[i][j]+cost)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				d = min(d, rows[i-1][j-1]+1)
			}
			rows[i+1][j+1] = d
		}
	}
	return rows[len(x)][len(y)]
}

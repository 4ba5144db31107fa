package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cocache/cocache/host/config/document"
	"github.com/cocache/cocache/runtime/policy"
)

// parsed is a value that a function makes of a scalar's text.
func parsed[T any](dst *T, kind string, parse func(string) (T, error), show func(T) string) value {
	return value{
		kind: kind,
		read: func(r *reader, n *document.Node) {
			text, ok := r.scalar(n)
			if !ok {
				return
			}
			v, err := parse(text)
			if err != nil {
				r.fail(n, "%s", err)
				return
			}
			*dst = v
		},
		show: func() string { return show(*dst) },
	}
}

func text(dst *string) value {
	return parsed(dst, "text", func(s string) (string, error) { return s, nil }, strconv.Quote)
}

func boolean(dst *bool) value {
	return parsed(dst, "boolean", parseBoolean, strconv.FormatBool)
}

func parseBoolean(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", s)
}

// not is a boolean whose place holds its opposite.
func not(dst *bool) value {
	return parsed(dst, "boolean", func(s string) (bool, error) {
		b, err := parseBoolean(s)
		return !b, err
	}, func(b bool) string { return strconv.FormatBool(!b) })
}

func word[T ~string](dst *T, words ...string) value {
	v := parsed(dst, "word", func(s string) (T, error) {
		if slices.Contains(words, s) {
			return T(s), nil
		}
		if meant := document.Closest(s, words); meant != "" {
			return "", fmt.Errorf("unknown word %q; did you mean %q?", s, meant)
		}
		return "", fmt.Errorf("unknown word %q: must be %s", s, orList(words))
	}, func(t T) string { return string(t) })
	v.words = words
	return v
}

// duration is one of at least a millisecond that ends.
func duration(dst *time.Duration) value {
	return parsed(dst, "duration", parseDuration, func(d time.Duration) string {
		if d == 0 {
			return "" // worked out from other fields
		}
		return policy.Text(d)
	})
}

func parseDuration(s string) (time.Duration, error) {
	switch {
	case s == "forever":
		return 0, fmt.Errorf("must end: forever is not allowed here")
	case s == "off":
		return 0, fmt.Errorf("cannot be switched off: write a duration, for example 30s")
	}
	d, err := policy.ParseDuration(s)
	if err == nil && d < time.Millisecond {
		return 0, fmt.Errorf("%q is under 1ms", s)
	}
	return d, err
}

// pause is a duration that may be nothing.
func pause(dst *time.Duration) value {
	return parsed(dst, "duration", policy.ParseDuration, policy.Text)
}

func durationOrOff(dst *time.Duration) value {
	v := parsed(dst, "duration", func(s string) (time.Duration, error) {
		if s == "off" {
			return policy.Off, nil
		}
		return parseDuration(s)
	}, policy.Text)
	v.words = []string{"off"}
	return v
}

func ttl(dst *time.Duration) value {
	v := parsed(dst, "duration", policy.ParseTTL, policy.Text)
	v.words = []string{"forever"}
	return v
}

var digits = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)

// count is a whole number of at least least.
func count[T int | int64](dst *T, least T) value {
	return parsed(dst, "number", func(s string) (T, error) {
		n, err := strconv.ParseInt(s, 10, strconv.IntSize)
		switch {
		case strings.HasPrefix(s, "-") && digits.MatchString(s[1:]):
			return 0, fmt.Errorf("%s is negative: must be at least %d", s, least)
		case !digits.MatchString(s):
			return 0, fmt.Errorf("%q is not a whole number", s)
		case err != nil:
			return 0, fmt.Errorf("%s is too large", s)
		case T(n) < least:
			return 0, fmt.Errorf("must be at least %d, is %d", least, n)
		}
		return T(n), nil
	}, func(n T) string { return strconv.FormatInt(int64(n), 10) })
}

// countOr is a count of which 0 is kept as another value, where the zero
// value of the place means its default.
func countOr(dst *int, none int) value {
	n := count(dst, 0)
	read, show := n.read, n.show
	n.read = func(r *reader, at *document.Node) {
		*dst = none
		read(r, at)
		if *dst == 0 {
			*dst = none
		}
	}
	n.show = func() string {
		if *dst == none {
			return "0"
		}
		return show()
	}
	return n
}

// percent is a whole percentage; off and 0% are kept as policy.NoJitter.
func percent(dst *int) value {
	v := parsed(dst, "percentage", func(s string) (int, error) {
		number, hasSign := strings.CutSuffix(s, "%")
		n, err := strconv.Atoi(number)
		switch {
		case s == "off" || s == "0%":
			return policy.NoJitter, nil
		case digits.MatchString(s):
			return 0, fmt.Errorf("%q has no percent sign: write %s%%", s, s)
		case !hasSign || err != nil || !digits.MatchString(number):
			return 0, fmt.Errorf("%q is not a whole percentage: write for example 10%%, or off", s)
		}
		return n, nil
	}, func(n int) string { return strconv.Itoa(max(n, 0)) + "%" })
	v.words = []string{"off"}
	return v
}

// sizeUnits from the largest to the smallest; a size is shown in the first
// binary one that divides it.
var sizeUnits = []struct {
	name string
	size int64
}{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
}

// size is a number of bytes, at least one.
func size[T int | int64](dst *T) value {
	return parsed(dst, "size", func(s string) (T, error) {
		n, err := parseSize(s)
		if err == nil && n > math.MaxInt>>8 {
			err = fmt.Errorf("%q is too large", s)
		}
		return T(n), err
	}, func(n T) string { return sizeText(int64(n)) })
}

func parseSize(s string) (int64, error) {
	if digits.MatchString(s) {
		return 0, fmt.Errorf("size %q has no unit: write for example %sB (units: KiB, MiB, GiB, KB, MB, GB, B)", s, s)
	}
	for _, u := range sizeUnits {
		number, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		if !digits.MatchString(number) {
			break
		}
		n, err := strconv.ParseInt(number, 10, 64)
		switch {
		case err != nil || n > math.MaxInt64/u.size:
			return 0, fmt.Errorf("%q is too large", s)
		case n == 0:
			return 0, fmt.Errorf("must be at least 1B, is %s", s)
		}
		return n * u.size, nil
	}
	return 0, fmt.Errorf("%q is not a size: write for example 64MiB (units: KiB, MiB, GiB, KB, MB, GB, B; whole numbers)", s)
}

func sizeText(n int64) string {
	for _, u := range sizeUnits[:3] {
		if n >= u.size && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// items is a list of scalars.
func items[T any](dst *[]T, kind string, parse func(string) (T, error)) value {
	return value{kind: "list of " + kind, show: func() string { return "[]" }, read: func(r *reader, n *document.Node) {
		if n.Kind == document.Broken {
			return
		}
		if n.Kind != document.List {
			r.fail(n, "must be a list ([a, b]), is %s", n.Kind)
			return
		}
		out := make([]T, 0, len(n.Items))
		for _, item := range n.Items {
			var v T
			parsed(&v, kind, parse, nil).read(r, item)
			out = append(out, v)
		}
		*dst = out
	}}
}

// texts is a mapping from names of the user's own to texts.
func texts(dst *map[string]string) value {
	return value{kind: "mapping of text", show: func() string { return "{}" }, read: func(r *reader, n *document.Node) {
		if !r.isMapping(n) {
			return
		}
		out := make(map[string]string, len(n.Entries))
		for _, e := range n.Entries {
			if s, ok := r.scalar(e.Value); ok {
				out[e.Name] = s
			}
		}
		*dst = out
	}}
}

// orList writes words as `a, b or c`.
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// units from the longest to the shortest, as a configuration writes them.
var units = []struct {
	name string
	size time.Duration
}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

// Text writes a lifetime as a configuration does: "1h30m", "250ms",
// "forever", "off".
func Text(d time.Duration) string {
	switch {
	case d == Forever:
		return "forever"
	case d == Off:
		return "off"
	case d == 0:
		return "0s"
	case d < 0 || d%time.Millisecond != 0:
		return d.String()
	}
	var b strings.Builder
	for _, u := range units {
		if n := d / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.size
		}
	}
	return b.String()
}

// ParseDuration reads a duration with units: ms, s, m, h and d, combined as in
// "1h30m", each with an optional fraction. A bare number is an error that
// says so, and so is one past what a Duration holds (292 years).
func ParseDuration(text string) (time.Duration, error) {
	switch {
	case text == "":
		return 0, fmt.Errorf("empty text is not a duration: write for example 30s")
	case strings.HasPrefix(text, "-"):
		return 0, fmt.Errorf("duration %q is negative", text)
	}
	var total time.Duration
	rest := text
	for rest != "" {
		n := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if n < 0 {
			return 0, fmt.Errorf("duration %q has no unit (ms, s, m, h, d): write for example 30s", text)
		}
		number := rest[:n]
		if !decimal(number) {
			return 0, fmt.Errorf("%q is not a duration: write for example 30s", text)
		}
		size, name := unit(rest[n:])
		if size == 0 {
			return 0, fmt.Errorf("%q is not a duration: units are ms, s, m, h and d", text)
		}
		rest = rest[n+len(name):]
		d, ok := multiply(number, size)
		if !ok || d > math.MaxInt64-1-total { // MaxInt64 itself is Forever
			return 0, fmt.Errorf("duration %q is over 292 years: write forever where that is meant", text)
		}
		total += d
	}
	return total, nil
}

// decimal is true for digits with at most one point between them.
func decimal(number string) bool {
	whole, fraction, point := strings.Cut(number, ".")
	return whole != "" && !strings.Contains(fraction, ".") && (fraction != "" || !point)
}

// multiply keeps whole numbers exact, which a float64 does not for more than
// some months of nanoseconds.
func multiply(number string, size time.Duration) (time.Duration, bool) {
	whole, fraction, _ := strings.Cut(number, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > math.MaxInt64/int64(size) {
		return 0, false
	}
	d := time.Duration(n) * size
	share, err := strconv.ParseFloat("0."+fraction, 64)
	part := time.Duration(math.Round(share * float64(size)))
	if err != nil || part > math.MaxInt64-d {
		return 0, false
	}
	return d + part, true
}

func unit(text string) (time.Duration, string) {
	if strings.HasPrefix(text, "ms") {
		return time.Millisecond, "ms"
	}
	for _, u := range units {
		if strings.HasPrefix(text, u.name) {
			return u.size, u.name
		}
	}
	return 0, ""
}

// ParseTTL reads a time to live: a duration of at least 1ms, or "forever".
func ParseTTL(text string) (time.Duration, error) {
	if text == "forever" {
		return Forever, nil
	}
	d, err := ParseDuration(text)
	if err != nil {
		return 0, err
	}
	if d < time.Millisecond {
		return 0, fmt.Errorf("ttl %q is under 1ms", text)
	}
	return d, nil
}

package audit

import (
	"slices"
	"sort"

	"github.com/cocache/cocache/runtime/frame"
)

// spans is a set of numbers, as ascending spans with gaps between.
type spans []frame.Span

// from is the index of the first span that ends at n or later.
func (s spans) from(n uint64) int {
	return sort.Search(len(s), func(i int) bool { return s[i].To >= n })
}

func (s spans) has(n uint64) bool {
	i := s.from(n)
	return i < len(s) && s[i].From <= n
}

func (s *spans) add(n uint64) {
	if s.has(n) {
		return
	}
	i := s.from(n)
	before := i > 0 && (*s)[i-1].To == n-1
	after := i < len(*s) && (*s)[i].From == n+1
	switch {
	case before && after:
		(*s)[i-1].To = (*s)[i].To
		*s = slices.Delete(*s, i, i+1)
	case before:
		(*s)[i-1].To = n
	case after:
		(*s)[i].From = n
	default:
		*s = slices.Insert(*s, i, frame.Span{From: n, To: n})
	}
}

func (s *spans) remove(n uint64) {
	i := s.from(n)
	if i == len(*s) || (*s)[i].From > n {
		return
	}
	old := (*s)[i]
	var parts []frame.Span
	if old.From < n {
		parts = append(parts, frame.Span{From: old.From, To: n - 1})
	}
	if n < old.To {
		parts = append(parts, frame.Span{From: n + 1, To: old.To})
	}
	*s = slices.Replace(*s, i, i+1, parts...)
}

// forget removes every number up to n.
func (s *spans) forget(n uint64) {
	*s = slices.Delete(*s, 0, s.from(n))
	if len(*s) > 0 && (*s)[0].From <= n {
		if (*s)[0].From = n + 1; (*s)[0].From > (*s)[0].To {
			*s = slices.Delete(*s, 0, 1)
		}
	}
}

// upTo is a copy of what is at n or below.
func (s spans) upTo(n uint64) []frame.Span {
	var part []frame.Span
	for _, span := range s {
		if span.From > n {
			break
		}
		part = append(part, frame.Span{From: span.From, To: min(span.To, n)})
	}
	return part
}

// cover reports whether every number of (after, to] is in s or in other.
func (s spans) cover(after, to uint64, other spans) bool {
	for after < to {
		next := max(s.end(after+1), other.end(after+1))
		if next == 0 {
			return false
		}
		after = next
	}
	return true
}

// end is the end of the span that has n, 0 without one.
func (s spans) end(n uint64) uint64 {
	if i := s.from(n); i < len(s) && s[i].From <= n {
		return s[i].To
	}
	return 0
}

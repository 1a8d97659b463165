package stalls

import (
	"cmp"
	"slices"
	"time"
)

// A Span is an interval of time.
type Span struct{ From, To time.Duration }

// Without returns the length of the span minus its overlap with others. Overlapping others count once.
func (s Span) Without(others []Span) time.Duration {
	left := s.To - s.From
	for _, o := range merged(others) {
		left -= max(0, min(s.To, o.To)-max(s.From, o.From))
	}
	return left
}

// merged returns spans sorted, with overlapping ones merged.
func merged(list []Span) []Span {
	list = slices.SortedFunc(slices.Values(list), func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	var made []Span
	for _, s := range list {
		if n := len(made); n > 0 && s.From <= made[n-1].To {
			made[n-1].To = max(made[n-1].To, s.To)
		} else {
			made = append(made, s)
		}
	}
	return made
}

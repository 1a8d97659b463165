package stalls

import (
	"cmp"
	"slices"
	"time"
)

// A Span is from when to when something lasted.
type Span struct{ From, To time.Duration }

// Without returns how long it lasted without the time of others, that of several at once taken off once.
func (s Span) Without(others []Span) time.Duration {
	left := s.To - s.From
	for _, o := range joined(others) {
		left -= max(0, min(s.To, o.To)-max(s.From, o.From))
	}
	return left
}

// joined returns spans in order, those that overlap as one.
func joined(list []Span) []Span {
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

// Package ruleorder sorts rules by their requests.
package ruleorder

import "cmp"

// An Order is how rules are sorted. The zero value is ByRequests.
type Order string

// The orders.
const (
	ByRequests Order = "requests"
	// ByDenied sorts by denied requests, then by those that shadow rules would have denied.
	ByDenied Order = "denied"
)

// A Sum has the sums by which rules are sorted.
type Sum struct {
	Rule                           string
	Requests, Denied, ShadowDenied uint64
}

// Compare compares two rules. The larger one comes first. Equal rules are sorted by their IDs.
func (o Order) Compare(a, b *Sum) int {
	byRequests := cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Rule, b.Rule))
	if o == ByDenied {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.ShadowDenied, a.ShadowDenied), byRequests)
	}
	return byRequests
}

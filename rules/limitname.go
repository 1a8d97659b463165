package rules

import (
	"slices"
	"strconv"

	"github.com/headgate/headgate"
)

// LimitNameUnder returns the name that limits[at], a limit of an override or of a client, has under a rule with the
// limits rule. That is its own name if it has one. Otherwise it is the name of the rule's limit that it replaces, so
// that both use the same counter. If it replaces none, the name consists of its period and algorithm.
func LimitNameUnder(rule, limits []Limit, at int) string {
	if hasOwnName(&limits[at]) {
		return limits[at].Name
	}
	if i := replacedLimit(rule, limits, at); i >= 0 {
		return rule[i].Name
	}
	if i := onlyReplacedLimit(rule, limits, at); i >= 0 {
		return rule[i].Name
	}
	return limits[at].Name
}

// replacedLimit returns the index of the rule's limit that the unnamed limits[at] replaces. That limit has the same
// algorithm and period; if there are several of them, the first replaces the first, and so on. It returns -1 if there
// is none, or if a limit with the name of that limit replaces it.
func replacedLimit(rule, limits []Limit, at int) int {
	l := &limits[at]
	nth := 0 // the number of limits of the same kind in front of l
	for i := range at {
		if !hasOwnName(&limits[i]) && sameKind(&limits[i], l) {
			nth++
		}
	}
	for i := range rule {
		if !sameKind(&rule[i], l) {
			continue
		}
		if nth > 0 {
			nth--
			continue
		}
		if slices.ContainsFunc(limits, func(l Limit) bool { return l.Name == rule[i].Name }) {
			break
		}
		return i
	}
	return -1
}

// onlyReplacedLimit returns the index of the rule's limit that limits[at] replaces although its kind is another. Both
// must be unnamed, and each must be the only limit in its list without a limit of the same kind in the other list. It
// returns -1 if there is no such limit. Concurrency limits do not count: they hold slots, and the counter of a limit
// that consumes units cannot be continued as one of slots.
func onlyReplacedLimit(rule, limits []Limit, at int) int {
	only := -1
	for i := range rule {
		if !isUnnamedCounter(&rule[i]) ||
			slices.ContainsFunc(limits, func(l Limit) bool { return !hasOwnName(&l) && sameKind(&l, &rule[i]) }) {
			continue
		}
		if only >= 0 {
			return -1
		}
		only = i
	}
	for j := range limits {
		unmatched := isUnnamedCounter(&limits[j]) &&
			!slices.ContainsFunc(rule, func(l Limit) bool { return sameKind(&l, &limits[j]) })
		if unmatched != (j == at) {
			return -1
		}
	}
	return only
}

// isUnnamedCounter reports whether a limit is unnamed and counts consumption, not slots.
func isUnnamedCounter(l *Limit) bool { return !hasOwnName(l) && l.Algorithm != headgate.Concurrency }

// sameKind reports whether two limits have the same algorithm and period, so that one can replace the other.
func sameKind(a, b *Limit) bool { return a.Algorithm == b.Algorithm && a.Period == b.Period }

// hasOwnName reports whether a limit has an explicit name. Names that numberLimits and nameLimits set begin with a
// digit.
func hasOwnName(l *Limit) bool { return l.Name != "" && (l.Name[0] < '0' || l.Name[0] > '9') }

// penaltyMark is the first character of the names of a penalty's limits, so that they have counters of their own. No
// other name contains it.
const penaltyMark = "~"

// numberLimits names the unnamed limits of a rule by their position.
func numberLimits(limits []Limit) []Limit {
	named := slices.Clone(limits)
	for i := range named {
		if named[i].Name == "" {
			named[i].Name = strconv.Itoa(i + 1)
		}
	}
	return named
}

// nameLimits names unnamed limits by their period and algorithm: "1h", "60s-sliding-window".
func nameLimits(limits []Limit) []Limit {
	named := slices.Clone(limits)
	for i := range named {
		if named[i].Name != "" {
			continue
		}
		name := "0-concurrent"
		if l := named[i].Limit; l.Algorithm != headgate.Concurrency {
			name = FormatDuration(l.Period)
			if l.Algorithm != headgate.TokenBucket {
				name += "-" + l.Algorithm.String()
			}
		}
		named[i].Name = name
		for n := 2; slices.ContainsFunc(named[:i], func(l Limit) bool { return l.Name == named[i].Name }); n++ {
			named[i].Name = name + "-" + strconv.Itoa(n)
		}
	}
	return named
}

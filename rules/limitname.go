package rules

import (
	"slices"
	"strconv"

	"github.com/headgate/headgate"
)

// LimitNameUnder returns the name of limits[at], which is a limit of an override or a client, under a rule with the
// given limits. A limit with an explicit name keeps it. A limit that replaces a limit of the rule gets the name of that
// limit, so that both use the same counter. Any other limit is named after its period and algorithm.
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

// replacedLimit returns the index of the rule's limit that limits[at], which has no explicit name, replaces. Both have
// the same algorithm and period. If several limits have them, the first in limits replaces the first of the rule, and
// so on. replacedLimit returns -1 if there is no such limit of the rule, or if another of limits has its name
// explicitly.
func replacedLimit(rule, limits []Limit, at int) int {
	l := &limits[at]
	nth := 0 // the number of limits of the same kind before l
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

// onlyReplacedLimit returns the index of the rule's limit that limits[at] replaces although it has another algorithm or
// period, or -1 if there is none. Neither limit may have an explicit name, and each must be the only limit in its list
// that has no counterpart of the same kind in the other list. Concurrency limits are ignored, because a counter of
// slots cannot continue as a counter of consumed units.
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

// isUnnamedCounter reports whether a limit has no explicit name and counts consumed units, not slots.
func isUnnamedCounter(l *Limit) bool { return !hasOwnName(l) && l.Algorithm != headgate.Concurrency }

// sameKind reports whether two limits have the same algorithm and period, so that one can replace the other.
func sameKind(a, b *Limit) bool { return a.Algorithm == b.Algorithm && a.Period == b.Period }

// hasOwnName reports whether a limit has an explicit name. Explicit names begin with a letter; the names that
// numberLimits and nameLimits set begin with a digit.
func hasOwnName(l *Limit) bool { return l.Name != "" && (l.Name[0] < '0' || l.Name[0] > '9') }

// penaltyMark begins the names of a penalty's limits. No other name contains it, so these limits have their own
// counters.
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

package rules

import (
	"slices"
	"strconv"

	"github.com/headgate/headgate"
)

// LimitNameUnder returns the name that a limit of an override or a client has under a rule: its own name, or that of
// the rule's limit that it replaces, or one that consists of its period and algorithm.
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

// replacedLimit returns the index of the rule's limit that an unnamed limit replaces: it has the same algorithm and
// period. It returns -1 if there is none, or if another limit replaces it.
func replacedLimit(rule, limits []Limit, at int) int {
	l := &limits[at]
	nth := 0
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

// onlyReplacedLimit returns the index of the rule's limit that a limit of another kind replaces: both must be unnamed,
// and the only ones on their sides without a counterpart. It returns -1 if there is none. Concurrency limits keep
// counters of their own, because slots are not consumed.
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
		unlike := isUnnamedCounter(&limits[j]) &&
			!slices.ContainsFunc(rule, func(l Limit) bool { return sameKind(&l, &limits[j]) })
		if unlike != (j == at) {
			return -1
		}
	}
	return only
}

// isUnnamedCounter reports whether a limit is unnamed and counts consumption, not slots.
func isUnnamedCounter(l *Limit) bool { return !hasOwnName(l) && l.Algorithm != headgate.Concurrency }

// sameKind reports whether one limit can replace the other.
func sameKind(a, b *Limit) bool { return a.Algorithm == b.Algorithm && a.Period == b.Period }

// hasOwnName reports whether a limit has an explicit name. Names from nameLimits begin with a digit.
func hasOwnName(l *Limit) bool { return l.Name != "" && (l.Name[0] < '0' || l.Name[0] > '9') }

// penaltyMark begins the names of a penalty's limits, so that they have counters of their own. No other name contains
// it.
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

package rules

import (
	"slices"
	"strconv"

	"github.com/headgate/headgate"
)

// LimitNameUnder returns the name that a limit of an override or a client has under a rule: its own, else that of the
// rule's limit that it replaces, else one by its period and algorithm.
func LimitNameUnder(rule, limits []Limit, at int) string {
	if named(&limits[at]) {
		return limits[at].Name
	}
	if len(limits) == 1 {
		for i := range rule { // alikeUnder for the common case
			if alike(&rule[i], &limits[0]) {
				return rule[i].Name
			}
		}
	}
	if i := alikeUnder(rule, limits, at); i >= 0 {
		return rule[i].Name
	}
	if i := onlyUnder(rule, limits, at); i >= 0 {
		return rule[i].Name
	}
	return limits[at].Name
}

// alikeUnder returns the index of the rule's limit with the algorithm and the period of an unnamed limit, -1 if there
// is none or another limit replaces it.
func alikeUnder(rule, limits []Limit, at int) int {
	l := &limits[at]
	nth := 0
	for i := range at {
		if !named(&limits[i]) && alike(&limits[i], l) {
			nth++
		}
	}
	for i := range rule {
		if !alike(&rule[i], l) {
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

// onlyUnder returns the index of the rule's limit that an unlike limit replaces: both must be unnamed, and the only
// ones on their sides without a counterpart. It returns -1 if there is none. Concurrency limits keep counters of their
// own, because slots are not consumed.
func onlyUnder(rule, limits []Limit, at int) int {
	only := -1
	for i := range rule {
		if !counts(&rule[i]) ||
			slices.ContainsFunc(limits, func(l Limit) bool { return !named(&l) && alike(&l, &rule[i]) }) {
			continue
		}
		if only >= 0 {
			return -1
		}
		only = i
	}
	for j := range limits {
		unlike := counts(&limits[j]) && !slices.ContainsFunc(rule, func(l Limit) bool { return alike(&l, &limits[j]) })
		if unlike != (j == at) {
			return -1
		}
	}
	return only
}

// counts reports whether a limit is unnamed and counts consumption.
func counts(l *Limit) bool { return !named(l) && l.Algorithm != headgate.Concurrency }

// alike reports whether one limit can replace the other.
func alike(a, b *Limit) bool { return a.Algorithm == b.Algorithm && a.Period == b.Period }

// named reports whether a limit has an explicit name. Names from nameLimits begin with a digit.
func named(l *Limit) bool { return l.Name != "" && (l.Name[0] < '0' || l.Name[0] > '9') }

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

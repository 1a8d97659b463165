package engine

import (
	"unsafe"

	"github.com/headgate/headgate/rules/match"
)

// A ClientView describes the client that one rule counts. It is valid until the verdict is reused, and read-only.
type ClientView struct {
	// Matched is the rule.
	Matched *match.Result
	// Values are the values in the client's key. match.SplitValues splits them; match.KeyAttributes returns the
	// attributes.
	Values string
	// Cost is the number of units that the request costs.
	Cost int64
	// Checked reports whether the rule's limits were checked. They were not if an earlier rule denied.
	Checked bool
	// Denied reports whether the rule denies or, as a shadow rule, would have denied.
	Denied bool
	// Shadow reports whether the rule has on_limit: shadow.
	Shadow bool
}

// ClientAt sets c to the client that a rule counts. i is the index of the rule's first limit, as in LimitAt. ClientAt
// returns the index of the next rule's first limit.
func (v *Verdict) ClientAt(i int, c *ClientView) (next int) {
	info, check := &v.infos[i], &v.checks[i]
	m := &v.matched[info.matched]
	c.Matched, c.Cost, c.Shadow = m, check.Cost, i >= v.enforcedCount
	c.Values = check.Key[m.KeyPrefixLen():info.base]
	next = v.ruleEnd(i)
	if v.PlainAllow() {
		c.Checked, c.Denied = true, false
		return next
	}
	c.Checked, c.Denied = false, false
	for j := i; j < next; j++ {
		c.Checked = c.Checked || v.decisions[j].Limit != 0
		c.Denied = c.Denied || !v.decisions[j].Allowed
	}
	c.Denied = c.Denied && c.Checked
	return next
}

// BlockedClient sets c to the client of a request that a rule denies without looking at counters. It returns false if
// no rule does so, or if the client is not known.
func (v *Verdict) BlockedClient(c *ClientView) bool {
	// v.keys has the client's key if match found a rule that denies without counters.
	if len(v.checks) > 0 || len(v.keys) == 0 || v.Action.Passes() {
		return false
	}
	for i := range v.matched {
		if m := &v.matched[i]; m.Rule == v.Rule {
			key := unsafe.String(unsafe.SliceData(v.keys), len(v.keys))
			*c = ClientView{Matched: m, Values: key[m.KeyPrefixLen():], Cost: 1, Checked: true, Denied: true}
			return true
		}
	}
	return false
}

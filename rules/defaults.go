package rules

import "slices"

// WithDefaults returns a deep copy of the rule in which unset fields have their defaults and all limits have names.
func (r *Rule) WithDefaults() Rule {
	filled := *r
	filled.When = r.When.Clone()
	filled.Key = slices.Clone(r.Key)
	filled.Limits = numberLimits(r.Limits)
	filled.Cost = r.Cost.withDefaults()
	if filled.Status == 0 {
		filled.Status = 429
	}
	if r.Safe != nil {
		safe := *r.Safe
		filled.Safe = &safe
	}
	filled.Overrides = slices.Clone(r.Overrides)
	for i := range filled.Overrides {
		o := &filled.Overrides[i]
		o.When = o.When.Clone()
		o.Limits = nameLimits(o.Limits)
		names := make([]string, len(o.Limits))
		for j := range o.Limits {
			names[j] = LimitNameUnder(filled.Limits, o.Limits, j)
		}
		for j := range o.Limits {
			o.Limits[j].Name = names[j]
		}
	}
	if r.Penalty != nil {
		penalty := *r.Penalty
		penalty.Limits = numberLimits(penalty.Limits)
		for i := range penalty.Limits {
			penalty.Limits[i].Name = penaltyMark + penalty.Limits[i].Name
		}
		filled.Penalty = &penalty
	}
	return filled
}

// Clone returns a deep copy.
func (c *Condition) Clone() Condition {
	cloned := Condition{Tests: slices.Clone(c.Tests)}
	for i := range cloned.Tests {
		cloned.Tests[i].Values = slices.Clone(cloned.Tests[i].Values)
	}
	for _, list := range []struct{ from, to *[]Condition }{
		{&c.Any, &cloned.Any}, {&c.All, &cloned.All}, {&c.Not, &cloned.Not},
	} {
		for i := range *list.from {
			*list.to = append(*list.to, (*list.from)[i].Clone())
		}
	}
	return cloned
}

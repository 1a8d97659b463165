package rules

import "slices"

// WithDefaults returns a deep copy of the rule with the defaults filled in.
func (r *Rule) WithDefaults() Rule {
	normal := *r
	normal.When = r.When.Clone()
	normal.Key = slices.Clone(r.Key)
	normal.Limits = numberLimits(r.Limits)
	normal.Cost = r.Cost.withDefaults()
	if normal.Status == 0 {
		normal.Status = 429
	}
	if r.Safe != nil {
		safe := *r.Safe
		normal.Safe = &safe
	}
	normal.Overrides = slices.Clone(r.Overrides)
	for i := range normal.Overrides {
		o := &normal.Overrides[i]
		o.When = o.When.Clone()
		o.Limits = nameLimits(o.Limits)
		names := make([]string, len(o.Limits))
		for j := range o.Limits {
			names[j] = LimitNameUnder(normal.Limits, o.Limits, j)
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
		normal.Penalty = &penalty
	}
	return normal
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

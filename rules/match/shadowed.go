package match

import (
	"slices"

	"github.com/headgate/headgate/rules"
)

// Shadowed returns a set with the same rules, in which the rules that choose selects have on_limit: shadow. count is
// the number of rules that it changed; if that is 0, it returns s itself. Both sets share their clients, and
// HideChanges of one affects both. Shadowed compiles nothing, so it is fast for any number of rules.
func (s *Set) Shadowed(choose func(*rules.Rule) bool) (shadowed *Set, count int) {
	var list []compiledRule
	for i := range s.rules {
		r := s.rules[i].rule
		if r.OnLimit.Action == rules.Shadow || !choose(r) {
			continue
		}
		if list == nil {
			list = slices.Clone(s.rules)
		}
		changed := *r
		changed.OnLimit = rules.OnLimit{Action: rules.Shadow}
		list[i].rule, list[i].simple = &changed, false
		count++
	}
	if list == nil {
		return s, 0
	}
	copied := *s
	copied.rules = list
	return &copied, count
}

package match

import (
	"slices"

	"github.com/headgate/headgate/rules"
)

// Shadowed returns a copy of the set in which each rule that choose selects has on_limit: shadow. count is the number
// of rules that it has changed; if it is 0, Shadowed returns s itself. Both sets share their clients, and calling
// HideChanges on either affects both. Shadowed does not compile rules, so it is fast for any number of them.
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

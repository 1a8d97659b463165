package match

import (
	"slices"

	"github.com/headgate/headgate/rules"
)

// Shadowed returns the same rules, those that choose selects with on_limit: shadow, and the number of rules that this
// changed. Both sets share their clients, and HideChanges of one affects both. It compiles nothing, so it is fast for
// any number of rules. It returns s itself if nothing changes.
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

// Package match finds the rules that apply to a request.
//
// [Compile] compiles rules into a [Set]. A set never changes: to change rules, compile a new set. [Set.Match] returns
// the rules that apply to a request, and the effect of each rule. All of them must allow the request.
//
//	set, err := match.Compile(list)
//	if err != nil {
//		return err
//	}
//	for _, m := range set.Match(request, nil) {
//		switch {
//		case m.Effect.Denies(): // blocked
//		case m.Effect == match.Limited: // take from m.Limits, under the keys of m.AppendKey
//		}
//	}
//
// A set has an index by host and path, by networks and by the values of other attributes. So the time of a match
// depends on the number of rules that match, and hardly on the number of all rules. Only conditions that cannot be
// indexed are evaluated for every request: empty conditions, conditions with only not, and some patterns that begin
// with a star. A match allocates nothing.
package match

// Package match finds the rules that apply to a request.
//
// [Compile] turns rules into a [Set], which never changes: to change rules, compile new ones and use the new set.
// [Set.Match] returns the rules that apply to a request and what they do. All of them must allow the request.
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
// A set is indexed by host and path, by networks and by the values of other attributes. The time of a match depends on
// the number of rules that match and of attributes in the index, hardly on the number of rules. Only rules without an
// indexable part are evaluated one by one: those for all requests, those with only not, and patterns that begin with a
// star. A match allocates nothing.
package match

// Package rules defines rate limiting rules and validates them. A rule says which requests it applies to, by which key
// it counts them, and how many it admits. docs/rules.md describes the rule language in full.
//
//	rule := rules.Rule{
//		ID:     "search-per-user",
//		When:   rules.Condition{Tests: []rules.Test{{Attribute: path, Values: []string{"/search/**"}}}},
//		Key:    []headgate.Attribute{user},
//		Limits: []rules.Limit{{Limit: headgate.MustParseLimit("10/s burst 20")}},
//	}
//	return rules.Validate([]rules.Rule{rule})
//
// Rules are usually read from a file, by package rules/file:
//
//	rules:
//	  - id: search-per-user
//	    when: { host: api.example.com, path: /search/**, method: GET }
//	    key: [user]
//	    limits: [10/s burst 20, 1000/h sliding-window]
//
// [Validate] reports all problems at once, each with its path and a description of valid values. Package rules/match
// compiles rules and finds those that apply to a request. Package rules/registry holds registered clients.
//
// A rule applies to the requests that its [Condition] matches. If several rules match a request, all of them must allow
// it. Each combination of the values of a rule's key has its own counters; without a key, all requests share one. If a
// request lacks an attribute of the key, [Fallback] says how it is counted: by default, by its address.
//
// [Owner] says whether a key belongs to one client or is shared by several. A client's own limits are checked first, so
// that a client over its own limit does not consume units of shared limits.
//
// Several settings can determine the limit of a client under a rule. The first of these applies:
//
//  1. block: true in the rule, in an override that matches, or in the registered client
//  2. unregistered: deny in the rule, if the client is not registered
//  3. the limits of the registered client, for this rule or for all rules that count by one of its attributes
//  4. the first override that matches
//  5. the rule's limits
//
// A condition can test a [Property] of a registered client, such as client.plan.
//
// An unlimited rule exempts matching requests from the limits of all rules with the same or a lower priority, but not
// from blocks. An unlimited override exempts its requests from the limits of its own rule only.
//
// [Consistency] says how nodes share counters. Not every mode supports every algorithm: see [Compatible].
package rules

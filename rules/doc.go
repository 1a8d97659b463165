// Package rules is the rule language: which requests a rule applies to, by which key it counts, and how much it admits.
// docs/rules.md describes the language in full.
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
// A [Rule] can also be written in Go. [Validate] reports all problems at once, with their paths and descriptions of
// valid values. Package rules/match compiles rules and finds those that apply to a request; package rules/registry
// holds registered clients.
//
// [Condition] says which requests a rule applies to. All rules that match apply, and all must allow the request. Each
// combination of the values of a rule's key has its own counters; without a key all requests share one. A request that
// lacks an attribute of the key is counted by its address by default (see [Fallback]).
//
// A client's own limits are checked before shared ones, so that a client over its own limit consumes nothing that
// others need (see [Owner]).
//
// For one client the first of these applies:
//
//  1. a block: of the rule, of an override that matches, or of the client
//  2. denial of an unregistered client, if the rule says unregistered: deny
//  3. the limits of the registered client, for this rule or for all rules that count by one of its attributes
//  4. the first override that matches
//  5. the rule's limits
//
// Conditions can test a [Property] of a registered client, such as its plan, as client.<name>.
//
// A rule that is unlimited exempts matching requests from the limits of rules with the same or a lower priority, but
// not from blocks. An override that is unlimited exempts from its own rule alone.
//
// consistency says how nodes share counters. Not every algorithm supports every mode; [Compatible] says which and why.
package rules

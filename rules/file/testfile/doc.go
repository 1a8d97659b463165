// Package testfile runs unit tests for rules, which people write beside their rules file: a request, the rules that
// should match it, and the expected decisions when it is repeated.
//
//	rules: rules.yaml
//	cases:
//	  - name: two searches a second for each user
//	    request: { method: GET, host: api.example.com, path: /search/cats, user: alice }
//	    matches: [search-per-user]
//	    steps:
//	      - { times: 2, expect: allow }
//	      - { expect: reject, by: search-per-user, retry_after: 500ms }
//	      - { at: 500ms, expect: allow, remaining: 0 }
//	      - { request: { user: bob }, expect: allow }
//
// matches lists all rules that match, in their order. Steps run one after the other: at a time since the case began,
// which stays the same until a step sets another; as often as times says; with the request of the case and the step's
// changes to it. An allowed request ends at once unless the step says how long it is in flight, and its response has
// the step's headers. Every case begins with nothing consumed.
//
// [File.Run] runs the cases with a function that decides, so that this package needs no engine.
package testfile

// Package testfile runs unit tests for rules, which users write next to their rules file. A test case has a
// request, the rules that should match it, and the expected decisions when the request is repeated.
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
// matches lists all rules that match, in their order. Steps run one after the other. "at" is the time since the case
// began; it stays the same until a step sets another one. "times" is how often the request is sent. "request" has
// changes to the request of the case. An allowed request ends immediately unless "for" states how long it is in
// flight, and its response has the headers in "response". Every case begins with nothing consumed.
//
// [File.Run] runs the cases with a function that decides, so that this package needs no engine.
package testfile

// Package testfile is unit tests for rules, which people write beside their rules file: a request, which rules should
// match it, and what should be decided when it comes again and again.
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
// All rules that match are listed, in their order. Steps happen one after the other: at a time since the case began, which
// stands still until another is given, as often as times says, with the request of the case and what the step changes of
// it. A request that is let pass ends at once unless the step says for how long it is in flight, and its response has the
// headers that the step says. Every case begins with nothing consumed.
//
// [File.Run] runs the cases. What decides is given to it, so that this package knows no engine.
package testfile

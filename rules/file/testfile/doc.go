// Package testfile runs tests of rules. Users write these tests in a file next to their rules file. A test case has a
// request, the rules that should match it, and steps that send the request and expect a decision.
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
// "matches" lists all rules that match, in the order of the rules. Steps run one after the other. "at" is the time
// since the case began; without it, a step has the time of the previous step. "times" is how often the request is sent.
// "request" changes attributes of the case's request. "for" is how long an allowed request is in flight; by default it
// ends immediately. "response" has headers of its response. Every case begins with empty counters.
//
// The caller of [File.Run] passes a function that decides requests, so this package does not import the engine.
package testfile

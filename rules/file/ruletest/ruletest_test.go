package ruletest_test

import (
	"testing"

	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/ruletest"
	"github.com/headgate/headgate/rules/file/testfile"
)

const ruleFile = `
rules:
  - { id: search, when: { path: /search/** }, key: [user], limits: 2/s, consistency: lease }
  - { id: pages, when: { path: /pages/** }, key: [user], limits: 10/s burst 1, on_limit: delay 200ms }
  - { id: login, when: { path: /login }, key: [ip], limits: 2/m, status: 503, penalty: { after: 2 denials in 1m, limits: [1/h], for: 1h } }
  - { id: uploads, when: { path: /uploads }, key: [user], limits: 2 concurrent ttl 30s }
  - { id: scrapers, when: { header.user-agent: "*bot*" }, block: true, on_limit: drop }
  - { id: model, when: { path: /model }, key: [user], limits: 100/h, cost: { response_header: X-Tokens-Used, estimate: 10 } }
  - { id: daily, when: { path: /daily }, key: [user], limits: 1/d fixed-window }
`

const cases = `
cases:
  - name: two searches a second for each user
    request: { path: /search/cats, user: alice }
    matches: [search]
    steps:
      - { times: 2, expect: allow, by: search, remaining: 0 }
      - { expect: reject, by: search, retry_after: 500ms, status: 429 }
      - { at: 500ms, expect: allow, remaining: 0 }
      - { request: { user: bob }, expect: allow, remaining: 1 }
  - name: pages wait for each other, but not for long
    request: { path: /pages/1, user: alice }
    steps:
      - { expect: allow }
      - { expect: delay, delay: 100ms }
      - { expect: delay, delay: 200ms }
      - { expect: reject, retry_after: 100ms }
      - { at: 1s, expect: allow }
  - name: who guesses is punished
    request: { path: /login, ip: 192.0.2.1 }
    steps:
      - { times: 2, expect: allow }
      - { times: 2, expect: reject, status: 503 }
      - { at: 1m, expect: allow }
      - { at: 2m, expect: reject, retry_after: 59m }
      - { at: 1h1m, expect: allow, remaining: 1 }
  - name: an upload holds its place
    request: { path: /uploads, user: alice }
    steps:
      - { times: 2, for: 10s, expect: allow }
      - { expect: reject }
      - { at: 9s, expect: reject }
      - { at: 10s, times: 5, expect: allow }
  - name: a model costs what it says
    request: { path: /model, user: alice }
    steps:
      - { response: { X-Tokens-Used: 70 }, expect: allow, remaining: 90 }
      - { response: { X-Tokens-Used: 1 }, expect: allow, remaining: 20 }
      - { expect: allow, remaining: 19 }
  - name: scrapers get no answer
    request: { path: /, header.user-agent: somebot/1.0 }
    steps: [{ times: 3, expect: drop, by: scrapers, status: 403 }]
  - name: a day begins with the case
    request: { path: /daily, user: alice }
    steps: [{ expect: allow }, { at: 23h59m, expect: reject, retry_after: 1m }, { at: 24h, expect: allow }]
`

func run(t *testing.T, cases string) []testfile.Result {
	t.Helper()
	doc, err := file.Parse("rules.yaml", []byte(ruleFile))
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	f, err := testfile.Parse("cases.yaml", []byte(cases))
	if err != nil {
		t.Fatal(err)
	}
	results, err := f.Run(set, ruletest.Starter(set))
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func TestCasesAreDecidedAsRequestsAre(t *testing.T) {
	results := run(t, cases)
	if len(results) != 7 {
		t.Errorf("got %d results, want 7", len(results))
	}
	for _, r := range results {
		for _, f := range r.Failures {
			t.Errorf("%s: %s", r.Case, f)
		}
	}
}

func TestWhatIsNotAsExpectedFails(t *testing.T) {
	results := run(t, `
cases:
  - name: three searches a second
    request: { path: /search/cats, user: alice }
    steps: [{ times: 3, expect: allow }]
`)
	if len(results) != 1 || len(results[0].Failures) != 1 {
		t.Fatalf("got %+v, want one failure", results)
	}
	const want = "cases.yaml:5:"
	if got := results[0].Failures[0].String(); len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("got %s, want it at %s", got, want)
	}
}

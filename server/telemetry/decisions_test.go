package telemetry_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
)

const everyKind = `
rules:
  - { id: rejecting, when: { path: /reject }, key: [user], limits: [2/h] }
  - { id: dropping, when: { path: /drop }, key: [user], limits: [2/h], on_limit: drop }
  - { id: shadowing, when: { path: /shadow }, key: [user], limits: [2/h], on_limit: shadow }
  - { id: delaying, when: { path: /delay }, key: [user], limits: [1/s burst 1], on_limit: delay 5s }
  - { id: blocking, when: { path: /block }, block: true }
  - { id: known-only, when: { path: /known }, key: [user], limits: [2/h], fallback: deny }
  - { id: exempting, when: { path: /free }, unlimited: true }
`

func TestDecisionsAreCountedByRuleVerdictAndMode(t *testing.T) {
	r := newRig(t, everyKind, memory(t), false)
	r.ask(5, "path", "/reject", "user", "alice")
	r.ask(2, "path", "/reject", "user", "bob")
	r.ask(3, "path", "/drop", "user", "alice")
	r.ask(6, "path", "/shadow", "user", "alice")
	r.ask(3, "path", "/delay", "user", "alice")
	r.ask(2, "path", "/block", "user", "alice")
	r.ask(1, "path", "/known")
	r.ask(4, "path", "/free", "user", "alice")
	r.ask(7, "path", "/nothing", "user", "alice")
	expect(t, scrape(t, r.metrics), map[string]string{
		`headgate_decisions_total{mode="local",rule="rejecting",verdict="allow"}`:  "4",
		`headgate_decisions_total{mode="local",rule="rejecting",verdict="reject"}`: "3",
		`headgate_decisions_total{mode="local",rule="dropping",verdict="allow"}`:   "2",
		`headgate_decisions_total{mode="local",rule="dropping",verdict="drop"}`:    "1",
		`headgate_decisions_total{mode="local",rule="shadowing",verdict="allow"}`:  "2",
		`headgate_decisions_total{mode="local",rule="shadowing",verdict="shadow"}`: "4",
		`headgate_decisions_total{mode="local",rule="delaying",verdict="allow"}`:   "1",
		`headgate_decisions_total{mode="local",rule="delaying",verdict="delay"}`:   "2",
		`headgate_decisions_total{mode="none",rule="blocking",verdict="block"}`:    "2",
		`headgate_decisions_total{mode="local",rule="known-only",verdict="block"}`: "1",
		`headgate_decisions_total{mode="none",rule="exempting",verdict="allow"}`:   "4",
		`headgate_decisions_total{mode="none",rule="(none)",verdict="allow"}`:      "7",
		`headgate_requests_total{verdict="allow"}`:                                 "24", // 4 + 2 + 6 + 1 + 4 + 7
		`headgate_requests_total{verdict="reject"}`:                                "6",  // 3 + 2 + 1
		`headgate_requests_total{verdict="drop"}`:                                  "1",
		`headgate_requests_total{verdict="delay"}`:                                 "2",
	})
}

func TestShadowBlocksAreNotCountedAsBlocks(t *testing.T) {
	r := newRig(t, `
rules:
  - { id: blocklist, when: { path: /block }, block: true, on_limit: shadow }
  - { id: known-only, when: { path: /known }, key: [user], limits: [2/h], fallback: deny, on_limit: shadow }
`, memory(t), false)
	expect(t, scrape(t, r.metrics), map[string]string{
		`headgate_decisions_total{mode="none",rule="blocklist",verdict="shadow"}`: "0",
	})
	r.ask(3, "path", "/block")
	r.ask(2, "path", "/known")
	got := scrape(t, r.metrics)
	expect(t, got, map[string]string{
		`headgate_decisions_total{mode="none",rule="blocklist",verdict="shadow"}`:   "3",
		`headgate_decisions_total{mode="local",rule="known-only",verdict="shadow"}`: "2",
		`headgate_requests_total{verdict="allow"}`:                                  "5",
	})
	if n, there := got[`headgate_decisions_total{mode="none",rule="blocklist",verdict="block"}`]; there {
		t.Errorf("got %s blocked by a rule in the shadow, want no such series", n)
	}
}

func TestARuleThatWasNotAskedIsNotCounted(t *testing.T) {
	r := newRig(t, `
rules:
  - { id: own, key: [user], limits: [1/h], consistency: local }
  - { id: everybody, limits: [100/h], consistency: exact }
`, memory(t), true)
	r.ask(5, "user", "alice")
	expect(t, scrape(t, r.metrics), map[string]string{
		`headgate_decisions_total{mode="local",rule="own",verdict="reject"}`:      "4",
		`headgate_decisions_total{mode="exact",rule="everybody",verdict="allow"}`: "1",
	})
}

// A rule that skips a request without identity, or from which another rule exempts it, does not decide about it.
func TestASkippedRequestIsNotCountedForItsRule(t *testing.T) {
	r := newRig(t, `
rules:
  - { id: office, priority: 9, when: { path: /office }, unlimited: true }
  - { id: users, key: [user], limits: [100/h], fallback: skip }
  - { id: closed, when: { path: /closed }, block: true }
  - { id: narrow, when: { path: /narrow }, limits: [1/h] }
`, memory(t), false)
	r.ask(1, "path", "/", "user", "alice")
	r.ask(2, "path", "/")
	r.ask(4, "path", "/closed")
	r.ask(8, "path", "/narrow")
	r.ask(16, "path", "/office", "user", "alice")
	got := scrape(t, r.metrics)
	expect(t, got, map[string]string{
		`headgate_decisions_total{mode="local",rule="users",verdict="allow"}`:   "1",
		`headgate_decisions_total{mode="none",rule="(none)",verdict="allow"}`:   "2",
		`headgate_decisions_total{mode="none",rule="closed",verdict="block"}`:   "4",
		`headgate_decisions_total{mode="local",rule="narrow",verdict="allow"}`:  "1",
		`headgate_decisions_total{mode="local",rule="narrow",verdict="reject"}`: "7",
		`headgate_decisions_total{mode="none",rule="office",verdict="allow"}`:   "16",
		`headgate_requests_total{verdict="allow"}`:                              "20",
	})
	for row := range r.metrics.Traffic() {
		if row.Rule == "users" && row.Requests != 1 {
			t.Errorf("traffic of the rule: got %d requests, want 1", row.Requests)
		}
	}
}

func TestPossibleVerdictsStartAtZero(t *testing.T) {
	r := newRig(t, everyKind, memory(t), true)
	got := scrape(t, r.metrics)
	expect(t, got, map[string]string{
		`headgate_decisions_total{mode="exact",rule="rejecting",verdict="allow"}`:  "0",
		`headgate_decisions_total{mode="exact",rule="rejecting",verdict="reject"}`: "0",
		`headgate_decisions_total{mode="exact",rule="dropping",verdict="drop"}`:    "0",
		`headgate_decisions_total{mode="exact",rule="shadowing",verdict="shadow"}`: "0",
	})
	if _, there := got[`headgate_decisions_total{mode="exact",rule="rejecting",verdict="drop"}`]; there {
		t.Error("a verdict that the rule never gives has a series")
	}
}

func TestPoliciesAreCountedWhenTheStoreFails(t *testing.T) {
	away := memory(t)
	r := newRig(t, `
rules:
  - { id: opens, when: { path: /open }, key: [user], limits: [1/h] }
  - { id: closes, when: { path: /closed }, key: [user], limits: [1/h], on_failure: closed }
  - { id: counts, when: { path: /local }, key: [user], limits: [2/h], on_failure: local }
  - { id: watches, when: { path: /shadow }, key: [user], limits: [2/h], on_limit: shadow }
`, away, true)
	if err := away.Close(); err != nil { // from now on it fails
		t.Fatal(err)
	}
	r.ask(3, "path", "/open", "user", "alice")
	r.ask(4, "path", "/closed", "user", "alice")
	r.ask(5, "path", "/local", "user", "alice")
	r.ask(6, "path", "/shadow", "user", "alice") // a shadow rule limits nothing, so it does not fail open
	if rules, requests := r.metrics.FailingOpen(); len(rules) != 1 || rules["opens"] != 3 || requests != 3 {
		t.Errorf("failing open: got %v, %d requests, want 3 of opens", rules, requests)
	}
	others := r.metrics.OtherFallbacks()
	if len(others) != 2 || others["closes"] != 4 || others["counts"] != 5 || r.metrics.Degraded() != 12 {
		t.Errorf("got %v and %d degraded requests, want 4 of closes, 5 of counts and 12", others, r.metrics.Degraded())
	}
	expect(t, scrape(t, r.metrics), map[string]string{
		`headgate_degraded_total{policy="open",rule="opens"}`:                      "3",
		`headgate_degraded_total{policy="shadow",rule="watches"}`:                  "6",
		`headgate_degraded_total{policy="open",rule="watches"}`:                    "",
		`headgate_degraded_total{policy="closed",rule="closes"}`:                   "4",
		`headgate_degraded_total{policy="local",rule="counts"}`:                    "5",
		`headgate_decisions_total{mode="degraded",rule="opens",verdict="allow"}`:   "3",
		`headgate_decisions_total{mode="degraded",rule="closes",verdict="reject"}`: "4",
		`headgate_decisions_total{mode="degraded",rule="counts",verdict="allow"}`:  "2",
		`headgate_decisions_total{mode="degraded",rule="counts",verdict="reject"}`: "3",
		`headgate_decisions_total{mode="exact",rule="opens",verdict="allow"}`:      "0",
		`headgate_decisions_total{mode="exact",rule="closes",verdict="reject"}`:    "0",
		`headgate_decisions_total{mode="exact",rule="counts",verdict="allow"}`:     "0",
		`headgate_decisions_total{mode="exact",rule="counts",verdict="reject"}`:    "0",
	})
}

func TestRemainingRulesKeepTheirCounters(t *testing.T) {
	r := newRig(t, "rules:\n  - { id: stays, key: [user], limits: [2/h] }\n  - { id: goes, key: [user], limits: [9/h] }\n", memory(t), false)
	r.ask(3, "user", "alice")
	r.swap("rules:\n  - { id: comes, key: [user], limits: [9/h] }\n  - { id: stays, key: [user], limits: [9/h], on_limit: drop }\n")
	got := scrape(t, r.metrics)
	expect(t, got, map[string]string{
		`headgate_decisions_total{mode="local",rule="stays",verdict="allow"}`:  "2",
		`headgate_decisions_total{mode="local",rule="stays",verdict="reject"}`: "1",
		`headgate_decisions_total{mode="local",rule="stays",verdict="drop"}`:   "0",
		`headgate_decisions_total{mode="local",rule="comes",verdict="allow"}`:  "0",
		`headgate_rules_revision`: "2",
		`headgate_rules`:          "2",
	})
	for name := range got {
		if strings.Contains(name, `"goes"`) {
			t.Errorf("got %s, want nothing of a rule that is gone", name)
		}
	}
}

func TestNoClientIsNamed(t *testing.T) {
	r := newRig(t, everyKind, memory(t), false)
	for _, secret := range []string{"Mallory-1", "Mallory-2", "203.0.113.77"} {
		for _, path := range []string{"/reject", "/drop", "/shadow", "/known", "/path-of-Mallory"} {
			r.ask(5, "path", path, "user", secret, "ip", "203.0.113.77", "header.x-plan", "Mallory")
		}
	}
	for name := range scrape(t, r.metrics) {
		for _, of := range []string{"Mallory", "203.0.113"} {
			if strings.Contains(name, of) {
				t.Errorf("got %s, want no label that a client chooses", name)
			}
		}
	}
}

// Requests come while rules change: each is counted once, under a rule that was in force.
func TestNothingIsLostWhenRulesChange(t *testing.T) {
	const one = "rules:\n  - { id: one, key: [user], limits: [1000000/s] }\n  - { id: both, key: [ip], limits: [1000000/s] }\n"
	const two = "rules:\n  - { id: both, key: [ip], limits: [2000000/s] }\n  - { id: two, key: [user], limits: [1000000/s] }\n"
	r := newRig(t, one, memory(t), false)
	const askers, each = 4, 2000
	var group sync.WaitGroup
	for range askers {
		group.Go(func() { r.ask(each, "user", "alice", "ip", "192.0.2.1") })
	}
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	for i := 0; ; i++ {
		select {
		case <-done:
		default:
			r.swap([]string{two, one}[i%2])
			continue
		}
		break
	}
	got := scrape(t, r.metrics)
	expect(t, got, map[string]string{
		`headgate_decisions_total{mode="local",rule="both",verdict="allow"}`: "8000",
		`headgate_requests_total{verdict="allow"}`:                           "8000",
	})
}

func TestObservingAllocatesNothing(t *testing.T) {
	r := newRig(t, everyKind, memory(t), false)
	for _, path := range []string{"/reject", "/shadow", "/block", "/nothing"} {
		subject := rules.Attributes{
			{Kind: headgate.AttrPath}: path, {Kind: headgate.AttrUser}: "alice",
		}
		var v engine.Verdict
		if err := r.engine.Decide(context.Background(), subject, &v); err != nil {
			t.Fatal(err)
		}
		v.Outcomes() // makes room once
		if n := testing.AllocsPerRun(1000, func() { r.metrics.Observe(&v) }); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", path, n)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	r := newRig(b, "rules:\n  - { id: a, key: [user], limits: [1000000000/s, 100000000000/h] }\n  - { id: b, key: [ip], limits: [1000000000/s] }\n", memory(b), false)
	subject := rules.Attributes{{Kind: headgate.AttrIP}: "192.0.2.1", {Kind: headgate.AttrUser}: "alice"}
	var v engine.Verdict
	if err := r.engine.Decide(context.Background(), subject, &v); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r.metrics.Observe(&v)
	}
}

// What counting adds to a decision.
func BenchmarkDecide(b *testing.B) {
	const text = "rules:\n  - { id: a, key: [user], limits: [1000000000/s, 100000000000/h] }\n  - { id: b, key: [ip], limits: [1000000000/s] }\n"
	for _, observed := range []bool{false, true} {
		name := "unobserved"
		if observed {
			name = "observed"
		}
		b.Run(name, func(b *testing.B) {
			r := newRig(b, text, memory(b), false)
			e := r.engine
			if !observed {
				var err error
				if e, err = engine.New(engine.Config{Rules: compile(b, text), Store: memory(b)}); err != nil {
					b.Fatal(err)
				}
			}
			subject := rules.Attributes{{Kind: headgate.AttrIP}: "192.0.2.1", {Kind: headgate.AttrUser}: "alice"}
			var v engine.Verdict
			b.ReportAllocs()
			for b.Loop() {
				if err := e.Decide(context.Background(), subject, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

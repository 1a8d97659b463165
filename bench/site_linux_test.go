package main

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// quickBench is a run at toy sizes.
func quickBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{
		sizes: quickSizes(1), results: &results{Quick: true},
		progress: newProgress(io.Discard, false, time.Now, 1),
	}
	t.Cleanup(b.progress.end)
	t.Cleanup(b.removeHeadgate)
	return b
}

func openTestSite(t *testing.T) *site {
	t.Helper()
	s, err := openSite(t.Context(), quickBench(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func TestHeadgateIsMeasuredWithItsRulesInForce(t *testing.T) {
	s := openTestSite(t)
	fronts := []front{proxyFronts()[0], refusingFronts()[0]}
	opened, err := s.openAll(t.Context(), fronts, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+opened[i].address+"/api/v1/orders/7", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = loadHost
		r.Header.Set("X-API-Key", "alice")
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s answers %d, want %d", opened[i].title, resp.StatusCode, want)
		}
		policy := resp.Header.Get("RateLimit-Policy")
		for _, rule := range []string{`"each-address"`, `"each-client"`, `"orders"`} {
			if i == 0 && !strings.Contains(policy, rule) {
				t.Errorf("the rule %s does not apply: %q", rule, policy)
			}
		}
	}
	if n := strings.Count(rulesThatPass(), "- { id: "); n != ruleCount {
		t.Errorf("there are %d rules, want %d", n, ruleCount)
	}
}

func TestAClosedSiteLeavesNothingBehind(t *testing.T) {
	s := openTestSite(t)
	var list []front
	for _, f := range proxyFronts() {
		if f.role == peer {
			list = append(list, f)
		}
	}
	opened, err := s.openAll(t.Context(), list, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	s.close()
	for _, p := range s.running {
		select {
		case <-p.ended:
		default:
			t.Errorf("%v still runs", p.cmd.Args)
		}
	}
	for _, o := range opened {
		if err := reachable(o.address); err == nil {
			t.Errorf("%s still answers", o.name)
		}
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("its folder: %v, want it to be gone", err)
	}
}

func TestAFrontThatDoesNotPassOnIsFound(t *testing.T) {
	s := openTestSite(t)
	other := serve(t, http.NotFoundHandler())
	if err := askOnce(t.Context(), other, http.StatusOK); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a server that answers 404: %v, want an error that says so", err)
	}
	liar := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	if err := askOnce(t.Context(), liar, http.StatusOK); err == nil || !strings.Contains(err.Error(), "hello") {
		t.Errorf("a server with an answer of its own: %v, want an error that says so", err)
	}
	if err := askOnce(t.Context(), s.upstream, http.StatusOK); err != nil {
		t.Errorf("the upstream itself: %v", err)
	}
}

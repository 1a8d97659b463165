package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/bench/gateway"
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/site"
)

// quickBench is a run at toy sizes.
func quickBench(t *testing.T) *harness.Bench {
	t.Helper()
	b := &harness.Bench{
		Sizes: harness.QuickSizes(1), Results: &harness.Results{Quick: true},
		Progress: harness.NewProgress(io.Discard, false, time.Now, 1),
	}
	t.Cleanup(b.Progress.End)
	t.Cleanup(b.RemoveHeadgate)
	return b
}

func openTestSite(t *testing.T) *site.Site {
	t.Helper()
	s, err := site.OpenSite(t.Context(), quickBench(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestHeadgateIsMeasuredWithItsRulesInForce(t *testing.T) {
	s := openTestSite(t)
	fronts := []site.Front{gateway.ProxyFronts()[0], gateway.RefusingFronts()[0]}
	opened, err := s.OpenAll(t.Context(), fronts, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+opened[i].Address+"/api/v1/orders/7", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = site.LoadHost
		r.Header.Set("X-API-Key", "alice")
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s answers %d, want %d", opened[i].Title, resp.StatusCode, want)
		}
		policy := resp.Header.Get("RateLimit-Policy")
		for _, rule := range []string{`"each-address"`, `"each-client"`, `"orders"`} {
			if i == 0 && !strings.Contains(policy, rule) {
				t.Errorf("the rule %s does not apply: %q", rule, policy)
			}
		}
	}
	if n := strings.Count(gateway.RulesThatPass(), "- { id: "); n != gateway.RuleCount {
		t.Errorf("there are %d rules, want %d", n, gateway.RuleCount)
	}
}

func TestAClosedSiteLeavesNothingBehind(t *testing.T) {
	s := openTestSite(t)
	var list []site.Front
	for _, f := range gateway.ProxyFronts() {
		if f.Role == harness.Peer {
			list = append(list, f)
		}
	}
	opened, err := s.OpenAll(t.Context(), list, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	for _, p := range s.Running {
		select {
		case <-p.Ended:
		default:
			t.Errorf("%v still runs", p.Cmd.Args)
		}
	}
	for _, o := range opened {
		if err := site.Reachable(o.Address); err == nil {
			t.Errorf("%s still answers", o.Name)
		}
	}
	if _, err := os.Stat(s.Dir); !os.IsNotExist(err) {
		t.Errorf("its folder: %v, want it to be gone", err)
	}
}

func TestAFrontThatDoesNotPassOnIsFound(t *testing.T) {
	s := openTestSite(t)
	other := listenAndServe(t, http.NotFoundHandler())
	if err := site.AskOnce(t.Context(), other, http.StatusOK); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a server that answers 404: %v, want an error that says so", err)
	}
	liar := listenAndServe(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	if err := site.AskOnce(t.Context(), liar, http.StatusOK); err == nil || !strings.Contains(err.Error(), "hello") {
		t.Errorf("a server with an answer of its own: %v, want an error that says so", err)
	}
	if err := site.AskOnce(t.Context(), s.Upstream, http.StatusOK); err != nil {
		t.Errorf("the upstream itself: %v", err)
	}
}

// listenAndServe serves h until the test ends, and returns its address.
func listenAndServe(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

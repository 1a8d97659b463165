package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/await"
)

// demoTrafficOf returns what /readyz says about the demo traffic.
func demoTrafficOf(t *testing.T, p *process) string {
	t.Helper()
	response, err := http.Get("http://" + p.admin + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var status struct {
		DemoTraffic string `json:"demo_traffic"`
	}
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	return status.DemoTraffic
}

func TestDemoTrafficIsDeniedAndCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	admin := newFile(t, "admin-token", testAdminToken)
	p := serve(t, onFreePort("--admin-token-file", admin, "--demo-traffic", "on")...)
	const denied = `headgate_decisions_total{mode="local",rule="demo-per-client",verdict="reject"}`
	await.NoError(t, "a noisy client that is denied", func() error {
		if p.metric(denied) == 0 {
			return errors.New("nothing is denied")
		}
		return nil
	})
	if got := demoTrafficOf(t, p); got != "on" {
		t.Errorf("got demo traffic %q, want on", got)
	}
	newClient(t, p.gateway).want(10, http.StatusOK) // the limit of this host's own requests is untouched

	body := json.RawMessage(`{"on":false}`)
	if err := rulesService(t, p).Do(t.Context(), http.MethodPut, "/v1/demo-traffic", url.Values{}, body, nil); err != nil {
		t.Fatal(err)
	}
	if got := demoTrafficOf(t, p); got != "off" {
		t.Errorf("got demo traffic %q, want off", got)
	}
}

func TestDemoTrafficIsNeverSentToAUsersService(t *testing.T) {
	t.Parallel()
	p := serve(t, onFreePort("--upstream", newUpstream(t))...)
	if got := demoTrafficOf(t, p); got != "" {
		t.Errorf("got demo traffic %q in front of a user's service, want none", got)
	}
	c := exec.CommandContext(t.Context(), "headgate", "serve", "--upstream", newUpstream(t), "--demo-traffic", "on")
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "--demo-traffic") {
		t.Errorf("got %v, %s, want an error about --demo-traffic", err, out)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/remote"
)

// A rules service and a node of it, each a process of its own: what is written at one is in force at the other, and the
// node starts from its file when the service is away.
func TestNodeFollowsARulesService(t *testing.T) {
	t.Parallel()
	admin := newFile(t, "admin-token", testAdminToken+"\n")
	addr, state := freeAddr(t), t.TempDir()
	service := serve(t, "--gateway-addr", "off", "--admin-token-file", admin, "--admin-addr", addr, "--data-dir", state)
	client := rulesService(t, service)
	putRule(t, client, "per-user", fmt.Sprintf(perUserRule, 100))
	waitLimit(t, service, "x", 100)
	if out := service.stdout.String(); strings.Contains(out, "hg_") {
		t.Errorf("a token was made although there is one in a file: %s", out)
	}

	args := []string{
		"--gateway-addr", "off", "--control", "http://" + addr, "--token-file", nodeToken(t, client), "--data-dir", t.TempDir(), "--node-id", "n1", "--region", "eu",
	}
	node := serve(t, args...)
	waitLimit(t, node, "x", 100)
	code, status := node.status()
	if f := status.Rules.Follow; code != http.StatusOK || status.Degraded || f == nil || f.FromDisk || f.Namespace != "default" {
		t.Errorf("got %d %+v", code, status)
	}
	revision := putRule(t, client, "per-user", fmt.Sprintf(perUserRule, 200))
	waitLimit(t, node, "x", 200)
	if _, err := client.Put(t.Context(), remote.Clients, "acme", []byte(`{"id":"acme","limits":["300/h"]}`), control.Absent); err != nil {
		t.Fatal(err)
	}
	waitLimit(t, node, "acme", 300)
	override := []byte(`{"id":"o","client":{"user":"acme"},"limits":["400/h"],"for":"1h"}`)
	if _, err := client.Put(t.Context(), remote.Overrides, "o", override, control.Absent); err != nil {
		t.Fatal(err)
	}
	waitLimit(t, node, "acme", 400)
	await.NoError(t, "the service to know which rules the node has", func() error {
		nodes, err := client.Nodes(t.Context())
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if n.ID == "n1" && n.Region == "eu" && n.Revision > revision && !n.Behind && n.Store == "ok" && n.Address == "http://"+node.admin {
				return nil
			}
		}
		return fmt.Errorf("got %+v", nodes)
	})
	if got := node.metric("headgate_rules_revision"); got <= float64(revision) {
		t.Errorf("headgate_rules_revision: got %v, want more than %d", got, revision)
	}

	// The node refuses calls of the rules API and names the rules service.
	for _, path := range []string{"/v1", "/v1/rules", "/openapi.json"} {
		if code, body := get(t, "http://"+node.admin+path); code != http.StatusNotFound || !strings.Contains(body, "come from http://"+addr) {
			t.Errorf("%s of the node: got %d %s", path, code, body)
		}
	}

	if code := service.stop(); code != 0 {
		t.Errorf("the service ended with %d", code)
	}
	if code := node.stop(); code != 0 {
		t.Errorf("the node ended with %d", code)
	}
	node = serve(t, args...)
	for user, want := range map[string]int64{"x": 200, "acme": 400} {
		waitLimit(t, node, user, want)
	}
	code, status = node.status()
	if f := status.Rules.Follow; code != http.StatusOK || !status.Degraded || f == nil || !f.FromDisk || f.Unreachable == "" {
		t.Errorf("without the service: got %d %+v", code, status)
	}
	for series, want := range map[string]float64{"headgate_rules_from_disk": 1, "headgate_rules_service_up": 0} {
		if got := node.metric(series); got != want {
			t.Errorf("without the service: %s: got %v, want %v", series, got, want)
		}
	}

	service = serve(t, "--gateway-addr", "off", "--admin-token-file", admin, "--admin-addr", addr, "--data-dir", state)
	putRule(t, rulesService(t, service), "per-user", fmt.Sprintf(perUserRule, 500))
	waitLimit(t, node, "x", 500)
	if _, status := node.status(); status.Rules.Follow.FromDisk || status.Degraded || node.metric("headgate_rules_from_disk") != 0 {
		t.Errorf("with the service again: got %+v", status)
	}
}

// Who starts without anything gets a token once, and a database that is there again the next time.
func TestFirstStartPrintsAToken(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	pattern := regexp.MustCompile(`(?m)^  (hg_\S+)$`)
	p := serve(t, onFreePort("--data-dir", state)...)
	var token string
	await.NoError(t, "a token", func() error {
		found := pattern.FindStringSubmatch(p.stdout.String())
		if found == nil {
			return errors.New("there is none in " + p.stdout.String())
		}
		token = found[1]
		return nil
	})
	for _, line := range p.all() {
		if strings.Contains(line["raw"].(string), token) {
			t.Errorf("the log has the token: %s", line["raw"])
		}
	}
	client := rulesServiceAt(t, remote.Config{URL: "http://" + p.admin, Token: token})
	page, err := client.List(t.Context(), remote.Rules, remote.Query{})
	if err != nil || page.Total != 5 {
		t.Errorf("got %+v, %v, want the rules of the demonstration", page, err)
	}
	if err := client.Delete(t.Context(), remote.Rules, "demo-per-address", control.AnyRevision); err != nil {
		t.Error(err)
	}
	p.stop()
	p = serve(t, onFreePort("--data-dir", state)...)
	client = rulesServiceAt(t, remote.Config{URL: "http://" + p.admin, Token: token})
	if page, err = client.List(t.Context(), remote.Rules, remote.Query{}); err != nil || page.Total != 4 {
		t.Errorf("at the second start: got %+v, %v, want the other four", page, err)
	}
	if code := p.stop(); code != 0 || pattern.MatchString(p.stdout.String()) {
		t.Errorf("at the second start: got %d, %s", code, p.stdout)
	}
	_, err = rulesServiceAt(t, remote.Config{URL: "http://" + p.admin, Timeout: time.Second}).List(t.Context(), remote.Rules, remote.Query{})
	if err == nil {
		t.Error("after it was stopped it answers")
	}
}

// Those who watch do not keep a service from ending.
func TestRulesServiceStopsWhileItIsWatched(t *testing.T) {
	t.Parallel()
	admin := newFile(t, "admin-token", testAdminToken)
	p := serve(t, "--gateway-addr", "off", "--admin-token-file", admin)
	client := rulesService(t, p)
	watching, ended := make(chan struct{}, 1), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(ended)
		for _, err := range client.Watch(ctx) {
			if err != nil {
				return
			}
			select {
			case watching <- struct{}{}:
			default:
			}
		}
	}()
	<-watching
	if code := p.stop(); code != 0 || len(p.logged("stopped")) != 1 {
		t.Errorf("it ended with %d", code)
	}
	<-ended
}

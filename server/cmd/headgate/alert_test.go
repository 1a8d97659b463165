package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
)

// firingAlerts returns the names of the alerts that fire in a Prometheus.
func firingAlerts(addr string) (map[string]bool, error) {
	response, err := http.Get("http://" + addr + "/api/v1/alerts")
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	var got struct {
		Data struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
	}
	body, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(body, &got)
	}
	names := map[string]bool{}
	for _, a := range got.Data.Alerts {
		if a.State == "firing" {
			names[a.Labels["alertname"]] = true
		}
	}
	return names, err
}

// runPrometheus starts a Prometheus that scrapes a process every second with the alerting rules of deploy/, which fire
// without a delay, and returns its address.
func runPrometheus(t *testing.T, p *process) string {
	t.Helper()
	dir, addr := t.TempDir(), freeAddr(t)
	rules, err := os.ReadFile("../../../deploy/prometheus/headgate.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^(\s+)for: .*$`).ReplaceAllString(string(rules), "${1}for: 0s")
	text = strings.ReplaceAll(text, "interval: 15s", "interval: 1s")
	for name, content := range map[string]string{
		"headgate.rules.yaml": text,
		"prometheus.yml": "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [headgate.rules.yaml]\n" +
			"scrape_configs: [{job_name: headgate, static_configs: [{targets: ['" + p.admin + "']}]}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("prometheus", "--config.file", filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", addr, "--log.level", "error")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()
	})
	return addr
}

func TestAlertsFireWhenRedisStops(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{})
	p := serve(t, "--gateway-addr", "off", "--store", "redis://"+redis.Addr(),
		"--rules", newFile(t, "rules.yaml", "rules: [{id: once, limits: [1/h]}]"))
	decideOnce(t, p) // the node learns its shards with the first call
	addr := runPrometheus(t, p)
	await.NoError(t, "a first scrape without alerts", func() error {
		response, err := http.Get("http://" + addr + "/api/v1/query?query=headgate_breaker_state")
		if err != nil {
			return err
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err == nil && !strings.Contains(string(body), `"shard"`) {
			err = fmt.Errorf("got %s", body)
		}
		return err
	})
	if names, err := firingAlerts(addr); err != nil || names["HeadgateBreakerOpen"] {
		t.Errorf("while Redis runs: got %v, %v", names, err)
	}
	redis.Kill()
	await.NoError(t, "the alerts of a stopped Redis", func() error {
		decideOnce(t, p) // so that a request is admitted without the store
		names, err := firingAlerts(addr)
		if err == nil && (!names["HeadgateBreakerOpen"] || !names["HeadgateFailingOpen"]) {
			err = fmt.Errorf("got %v", names)
		}
		return err
	})
}

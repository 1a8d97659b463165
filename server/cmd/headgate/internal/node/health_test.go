package node

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/alerts"
)

// The heartbeats of a node whose Redis stops make two alerts fire, and resolve once Redis is back. The times of alerts
// pass at once.
func TestAlertsFireWhileRedisIsStopped(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{})
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte("rules: [{id: search, limits: [100/s]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := load(t, map[string]string{"rules": path, "store": redis.URL(), "gateway-addr": "off"})
	n, err := Open(t.Context(), c, Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	decide := func() error {
		response, err := http.Post("http://"+n.Listeners()["api"]+"/v1/ratelimit", "application/json",
			strings.NewReader(`{"ruleId":"search"}`))
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	var book alerts.Book
	clock := time.Now()
	// firing evaluates a heartbeat of now, as if it repeated until the conditions have held for their times, and returns
	// those of the alerts of interest that fire. Others may, too: without Redis, async sync is down.
	want := []string{"breaker_open/" + redis.Addr(), "failing_open/store"}
	firing := func() (ids []string) {
		self := n.describe()
		for range 2 {
			self.Seen = clock
			book.Update(alerts.Find(&alerts.Input{Nodes: []control.Node{self}}, clock), clock)
			clock = clock.Add(alerts.FailingOpen.For)
		}
		for _, a := range book.List() {
			if a.State == alerts.Firing && slices.Contains(want, a.ID) {
				ids = append(ids, a.ID)
			}
		}
		slices.Sort(ids)
		return ids
	}
	await.NoError(t, "a decision", decide)
	if got := firing(); got != nil {
		t.Fatalf("got %v while Redis runs", got)
	}
	redis.Kill()
	await.NoError(t, "the alerts", func() error {
		if err := decide(); err != nil {
			return err
		}
		if got := firing(); !slices.Equal(got, want) {
			return fmt.Errorf("got %v, want %v", got, want)
		}
		return nil
	})
	redis.Restart()
	await.NoError(t, "the end of the alerts", func() error {
		if got := firing(); got != nil {
			return fmt.Errorf("got %v, want none", got)
		}
		return nil
	})
}

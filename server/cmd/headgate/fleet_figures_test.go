package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/remote"
)

// useUp takes all that a node lets a user have under the rule told.
func useUp(t *testing.T, p *process, user string) {
	t.Helper()
	for range 100 {
		response, err := http.Post("http://"+p.api+"/v1/ratelimit", "application/json", strings.NewReader(fmt.Sprintf(`{"ruleId":"told","client":{"userId":%q}}`, user)))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusTooManyRequests {
			return
		}
	}
	t.Fatal("100 passed and none was denied")
}

// nodeOf returns what a rules service shows of a node.
func nodeOf(t *testing.T, client *remote.Client, id string) (*control.Node, error) {
	t.Helper()
	list, err := client.Nodes(t.Context())
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].ID == id {
			return &list[i], nil
		}
	}
	return nil, fmt.Errorf("%s is not among %d nodes", id, len(list))
}

// asyncSyncOf returns the async statistics that a rules service shows of a node.
func asyncSyncOf(t *testing.T, client *remote.Client, id string) (*control.SyncStats, error) {
	t.Helper()
	n, err := nodeOf(t, client, id)
	switch {
	case err != nil:
		return nil, err
	case n.Fleet == nil || len(n.Fleet.Sync) != 1 || n.Fleet.Sync[0].Mode != "async" || n.Fleet.Leases == nil:
		return nil, fmt.Errorf("%s reports %+v of the fleet, want async sync and leases", id, n.Fleet)
	}
	return &n.Fleet.Sync[0], nil
}

// Two nodes let more pass than there is before they hear of each other. The rules service shows how late they did, and
// how much it was, as each of them measures it; and so it does of the node that it is itself.
func TestRulesServiceShowsSyncLagAndOverAdmission(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	late := countingIn(t, server, "fleet: { interval: 1s }") // long enough that both nodes admit the whole limit
	s, client, nodes := fleetShell(t, []string{"n1", "n2"}, late...)
	putRule(t, client, "told", `{"id":"told","key":["user"],"limits":["10/d"],"consistency":"async"}`)
	for _, p := range nodes {
		await.NoError(t, "the node to know the rule", func() error {
			response, err := http.Post("http://"+p.api+"/v1/ratelimit", "application/json", strings.NewReader(`{"ruleId":"told","client":{"userId":"x"},"cost":0}`))
			if err != nil {
				return err
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK {
				return errors.New(response.Status)
			}
			return nil
		})
	}
	const over = `headgate_sync_units_total{kind="over",mode="async"}`
	users := 0
	await.NoError(t, "a node to learn that more has passed than there was", func() error {
		if nodes[0].metric(over) > 0 {
			return nil
		}
		if users++; users%20 == 1 { // few enough that updates are fast
			useUp(t, nodes[0], fmt.Sprint("user", users))
			useUp(t, nodes[1], fmt.Sprint("user", users))
		}
		return errors.New("it has not")
	})
	putRule(t, client, "other", `{"id":"other","when":{"path":"/other"},"limits":["1/s"]}`) // nodes say soon that they have it, and how they are
	for i, id := range []string{"n1", "n2"} {
		p := nodes[i]
		await.NoError(t, "the rules service to show what "+id+" measures", func() error {
			got, err := asyncSyncOf(t, client, id)
			if err != nil {
				return err
			}
			wantOver, wantMost := int64(p.metric(over)), int64(p.metric(`headgate_sync_over_max_units{mode="async"}`))
			if got.ExcessUnits != wantOver || got.MaxExcess != wantMost || !got.Up || got.Sent == 0 || got.Received == 0 {
				return fmt.Errorf("got %+v, want %d units over and %d of one key", got, wantOver, wantMost)
			}
			if i == 0 && (got.LagMS <= 0 || got.LagMaxMS < got.LagMS || got.ExcessUnits <= 0 || got.MaxExcess <= 0 || got.Keys == 0) {
				return fmt.Errorf("got %+v, want late updates and over-admission", got)
			}
			return nil
		})
	}
	for _, id := range []string{"n1", "service"} {
		await.NoError(t, id+" to say that it has heard of three nodes", func() error {
			n, err := nodeOf(t, client, id)
			if err == nil && (n.Fleet == nil || n.Fleet.Live != 3 || n.Fleet.Known != 3) {
				err = fmt.Errorf("got %+v", n.Fleet)
			}
			return err
		})
	}
	if _, err := asyncSyncOf(t, client, "service"); err != nil {
		t.Error(err)
	}
	var list []control.Node
	if err := json.Unmarshal([]byte(s.want(`"lag_max_ms"`, "nodes", "--output", "json")), &list); err != nil || len(list) != 3 || list[0].Fleet == nil {
		t.Errorf("got %v and %+v of the shell, want three nodes and how they share limits", err, list)
	}
	if table := fields(s.want("SYNC", "nodes")); !strings.Contains(table, " over") || !strings.Contains(table, "async ") {
		t.Errorf("got\n%s\nwant what passed beyond limits", table)
	}
}

// A node that has no database shows itself, and so do its figures.
func TestNodeWithARulesFileListsItself(t *testing.T) {
	t.Parallel()
	admin := newFile(t, "admin-token", testAdminToken+"\n")
	p := serve(t, "--gateway-addr", "off", "--rules", rulesFile(t, gossipRules), "--node-id", "alone", "--gossip-addr", "127.0.0.1:0", "--admin-token-file", admin)
	client := rulesService(t, p)
	await.NoError(t, "the node to be shown", func() error {
		n, err := nodeOf(t, client, "alone")
		if err != nil {
			return err
		}
		if n.Behind || n.Store != "ok" || n.Fleet == nil || n.Fleet.Live != 1 || len(n.Fleet.Sync) != 1 || n.Fleet.Sync[0].Mode != "gossip" || n.Fleet.Leases != nil {
			return fmt.Errorf("got %+v with %+v, want one that gossips with nobody yet", n, n.Fleet)
		}
		return nil
	})
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/control/remote"
)

// A trafficFleet is a rules service and three nodes, each a process. Two nodes are in the region eu, one in us.
type trafficFleet struct {
	*shell
	client      *remote.Client
	service     *process
	nodes       []*process
	serviceArgs []string
}

var fleetNodes = []string{"n1", "n2", "n3"}

func startTrafficFleet(t *testing.T) *trafficFleet {
	t.Helper()
	admin := newFile(t, "admin-token", testAdminToken+"\n")
	addr := freeAddr(t)
	f := &trafficFleet{serviceArgs: []string{
		"--gateway-addr", "off", "--admin-token-file", admin, "--admin-addr", addr, "--data-dir", t.TempDir(),
		"--node-id", "service",
	}}
	f.service = serve(t, f.serviceArgs...)
	f.client = rulesService(t, f.service)
	f.shell = &shell{t: t, env: []string{
		"HEADGATE_CONTEXTS=" + t.TempDir() + "/contexts.yaml", "HEADGATE_SERVER=http://" + addr, "HEADGATE_TOKEN_FILE=" + admin,
	}}
	putRule(t, f.client, "per-user", fmt.Sprintf(perUserRule, 10))
	for _, id := range fleetNodes {
		putRule(t, f.client, "live-"+id, fmt.Sprintf(`{"id":"live-%s","limits":["1000/s"]}`, id))
	}
	putRule(t, f.client, "once", onceRule)
	token := nodeToken(t, f.client)
	// Nodes that poll this rarely have only what the rules service pushes.
	config := newFile(t, "headgate.yaml", "rules_service: { poll: 10m }\n")
	for i, id := range fleetNodes {
		f.nodes = append(f.nodes, serve(t, "--config", config, "--gateway-addr", "off", "--control", "http://"+addr, "--token-file", token,
			"--data-dir", t.TempDir(), "--admin-token-file", admin, "--node-id", id, "--region", []string{"eu", "eu", "us"}[i]))
	}
	for i, id := range fleetNodes {
		waitLimit(t, f.nodes[i], "x", 10)
		await.NoError(t, "the service to know of node "+id, func() error { return f.holds(id, "nodes") })
	}
	return f
}

// ask asks a node for decisions.
func (f *trafficFleet) ask(node, times int, body string) {
	f.t.Helper()
	for range times {
		response, err := http.Post("http://"+f.nodes[node].api+"/v1/ratelimit", "application/json", strings.NewReader(body))
		if err != nil {
			f.t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusTooManyRequests {
			f.t.Fatalf("%s: got %s", body, response.Status)
		}
	}
}

// askAs asks a node for decisions about a user under the rule per-user.
func (f *trafficFleet) askAs(node, times int, user string) {
	f.t.Helper()
	f.ask(node, times, fmt.Sprintf(`{"ruleId":"per-user","client":{"userId":%q}}`, user))
}

// sums returns the requests and denials under the rule per-user by GET /v1/traffic.
func (f *trafficFleet) sums(query string) (string, error) {
	f.t.Helper()
	var got struct {
		Total struct{ Requests, Denied []int }
		Nodes []struct{ Node, State string }
	}
	q, err := url.ParseQuery("rule=per-user&window=10m&" + query)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.client.Do(f.t.Context(), http.MethodGet, "/v1/traffic", q, nil, &got); err != nil {
		return "", err
	}
	requests, denied := 0, 0
	for i := range got.Total.Requests {
		requests += got.Total.Requests[i]
		denied += got.Total.Denied[i]
	}
	return fmt.Sprintf("%d requests, %d denied, %d nodes", requests, denied, len(got.Nodes)), nil
}

// waitSums waits for the counts of a query. Nodes report every two seconds.
func (f *trafficFleet) waitSums(query, want string) {
	f.t.Helper()
	await.NoError(f.t, "GET /v1/traffic?"+query, func() error {
		got, err := f.sums(query)
		if err == nil && got != want {
			err = fmt.Errorf("got %s, want %s", got, want)
		}
		return err
	})
}

// clients returns the clients of the rule per-user in a window by GET /v1/traffic/clients.
func (f *trafficFleet) clients(window string) (string, error) {
	f.t.Helper()
	var got struct {
		Clients []struct {
			Client           map[string]string
			Requests, Denied int
		}
	}
	query := url.Values{"rule": {"per-user"}, "order": {"requests"}, "window": {window}}
	if err := f.client.Do(f.t.Context(), http.MethodGet, "/v1/traffic/clients", query, nil, &got); err != nil {
		return "", err
	}
	var list []string
	for _, c := range got.Clients {
		list = append(list, fmt.Sprintf("%s %d/%d", c.Client["user"], c.Denied, c.Requests))
	}
	return strings.Join(list, ", "), nil
}

func (f *trafficFleet) waitClients(want string) {
	f.t.Helper()
	await.NoError(f.t, "GET /v1/traffic/clients", func() error {
		got, err := f.clients("2h")
		if err == nil && got != want {
			err = fmt.Errorf("got %q, want %q", got, want)
		}
		return err
	})
}

func TestFleetQueriesOfThreeNodes(t *testing.T) {
	t.Parallel()
	f := startTrafficFleet(t)
	f.askAs(0, 20, "noisy")
	f.askAs(1, 12, "noisy")
	f.askAs(2, 3, "quiet")

	f.waitSums("", "35 requests, 12 denied, 0 nodes")
	f.waitSums("node=n1", "20 requests, 10 denied, 1 nodes")
	f.waitSums("region=eu", "32 requests, 12 denied, 2 nodes")
	f.waitSums("region=us", "3 requests, 0 denied, 1 nodes")
	f.waitSums("region=us&node=n3", "3 requests, 0 denied, 1 nodes")
	if _, err := f.sums("region=us&node=n1"); err == nil {
		t.Error("a node of another region: got no error")
	}
	f.waitClients("noisy 12/32, quiet 0/3")
	f.checkLive()
	f.checkWhatIf()
	f.checkNode()

	f.want("erased", "traffic", "erase", "user=noisy")
	f.waitClients("quiet 0/3")
	await.NoError(t, "the nodes to erase the client's last decisions", func() error {
		if out := f.want("", "traffic", "decisions", "user=noisy"); strings.Contains(out, "per-user") {
			return fmt.Errorf("got\n%s", out)
		}
		return nil
	})
	f.checkRestart()
}

// checkLive checks that the live stream has the requests of every node.
func (f *trafficFleet) checkLive() {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, "http://"+f.service.admin+"/v1/traffic/live", http.NoBody)
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testAdminToken)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	seen := map[string]bool{}
	for lines, began := bufio.NewScanner(response.Body), time.Now(); len(seen) < len(fleetNodes); {
		if !lines.Scan() || time.Since(began) > patience {
			f.t.Fatalf("the live stream has only %v, want all of %v: %v", seen, fleetNodes, lines.Err())
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var event struct{ Rules []struct{ Rule string } }
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			f.t.Fatalf("%s: %v", data, err)
		}
		for _, row := range event.Rules {
			if id, ok := strings.CutPrefix(row.Rule, "live-"); ok {
				seen[id] = true
			}
		}
		for i, id := range fleetNodes { // once for each event, which is once a second
			f.ask(i, 1, `{"ruleId":"live-`+id+`"}`)
		}
	}
}

// checkWhatIf checks that what-if replays the requests that all nodes have recorded.
func (f *trafficFleet) checkWhatIf() {
	f.t.Helper()
	var got struct {
		Requests, Denied struct{ Value float64 }
		Clients          struct{ Value float64 }
		Nodes            []struct{ Node, State string }
	}
	request := map[string]any{"rule": "per-user", "limits": []string{"5/h fixed-window"}, "window": "10m"}
	if err := f.client.Do(f.t.Context(), http.MethodPost, "/v1/whatif", nil, request, &got); err != nil {
		f.t.Fatal(err)
	}
	// One limit of 5 for the fleet's 32 requests of noisy and 3 of quiet.
	if got.Requests.Value != 35 || got.Denied.Value != 27 || len(got.Nodes) != 4 {
		f.t.Errorf("what-if: got %+v, want 27 of 35 requests denied, by four nodes", got)
	}
	for _, n := range got.Nodes {
		if n.State != "answered" {
			f.t.Errorf("what-if: node %s is %s", n.Node, n.State)
		}
	}
	rule := newFile(f.t, "new.yaml", "id: per-user\nkey: user\nlimits: 5/h fixed-window\n")
	f.want("4 of 4 nodes responded", "rules", "whatif", "--rule", rule, "--window", "10m")
}

// checkNode checks that a node without a rules service of its own has its own traffic.
func (f *trafficFleet) checkNode() {
	f.t.Helper()
	node := rulesService(f.t, f.nodes[0])
	var clients struct {
		Clients []struct {
			Client           map[string]string
			Requests, Denied int
		}
	}
	if err := node.Do(f.t.Context(), http.MethodGet, "/v1/traffic/clients", url.Values{"rule": {"per-user"}}, nil, &clients); err != nil {
		f.t.Fatal(err)
	}
	if got := fmt.Sprint(clients.Clients); got != "[{map[user:noisy] 20 10}]" {
		f.t.Errorf("the clients of a node: got %s, want 20 requests of noisy, 10 of them denied", got)
	}
	var series struct{ Total struct{ Requests []int } }
	if err := node.Do(f.t.Context(), http.MethodGet, "/v1/traffic", url.Values{"rule": {"per-user"}, "window": {"1h"}}, nil, &series); err != nil {
		f.t.Fatal(err)
	}
	sum := 0
	for _, n := range series.Total.Requests {
		sum += n
	}
	if sum != 20 {
		f.t.Errorf("the series of a node: got %d requests, want 20", sum)
	}
	if err := node.Do(f.t.Context(), http.MethodGet, "/v1/rules", nil, nil, nil); err == nil {
		f.t.Error("the rules of a node: got no error, want none but its traffic")
	}
	f.want("user=noisy ", "top", "--once", "--server", "http://"+f.nodes[0].admin)
	f.want("user=noisy  per-user", "traffic", "decisions", "user=noisy", "--server", "http://"+f.nodes[0].admin)
}

// checkRestart checks that a rules service that is restarted has the traffic of before, and gets that of after.
func (f *trafficFleet) checkRestart() {
	f.t.Helper()
	f.waitSums("", "35 requests, 12 denied, 0 nodes")
	if code := f.service.stop(); code != 0 {
		f.t.Fatalf("the service ended with %d", code)
	}
	f.askAs(2, 4, "quiet") // while it is down
	f.service = serve(f.t, f.serviceArgs...)
	f.waitSums("", "39 requests, 12 denied, 0 nodes")
	for _, window := range []string{"10m", "1h", "2h"} { // longer than the test
		await.NoError(f.t, "the clients of before the restart", func() error {
			got, err := f.clients(window)
			if err == nil && got != "quiet 0/7" {
				err = fmt.Errorf("%s: got %q, want quiet, and not the erased client", window, got)
			}
			return err
		})
	}
}

func TestEnforceOffOnThreeNodes(t *testing.T) {
	t.Parallel()
	f := startTrafficFleet(t)
	all := append([]*process{f.service}, f.nodes...)
	for _, p := range all {
		waitDecision(t, p, http.StatusTooManyRequests)
	}
	// The nodes poll every ten minutes, so that they have the switch by a push.
	began := time.Now()
	f.want("", "enforce", "off", "once", "--for", "30m")
	for _, p := range all {
		waitDecision(t, p, http.StatusOK)
	}
	t.Logf("enforce off is in force on %d nodes after %v", len(all), time.Since(began))
	f.want("", "enforce", "on")
	for _, p := range all {
		waitDecision(t, p, http.StatusTooManyRequests)
	}

	if code := f.service.stop(); code != 0 {
		t.Fatalf("the service ended with %d", code)
	}
	enforce(t, f.nodes[1], "off", "once", "--this-node", "--for", "5m")
	for i, want := range []int{http.StatusTooManyRequests, http.StatusOK, http.StatusTooManyRequests} {
		if got := decideOnce(t, f.nodes[i]); got != want {
			t.Errorf("%s, without a rules service: got %d, want %d", fleetNodes[i], got, want)
		}
	}
}

package api_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/nodequery"
	"github.com/headgate/headgate/server/control/token"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// sampleSource returns a node's samples of clients that send 10 requests, 5 of them at once, and of one that sends 100.
func sampleSource(t *testing.T, now time.Time) nodequery.TrafficSource {
	return func(query json.RawMessage) (json.RawMessage, error) {
		var q traffic.NodeQuery
		if err := json.Unmarshal(query, &q); err != nil {
			t.Error(err)
		}
		if q.Series != nil {
			h := traffic.NewHistory(traffic.HistoryOptions{})
			h.Add(&traffic.Report{Node: "a", Started: 1, Seconds: []traffic.Second{{
				Unix: now.Unix() - 4, Rows: []traffic.Row{{Rule: "search", Counts: traffic.Counts{Requests: 7}}},
			}}}, now)
			return json.Marshal(traffic.NodeResponse{Series: h.Series(*q.Series, now)})
		}
		s := &traffic.Sample{From: now.Add(-time.Hour), To: now, OneIn: 1}
		for i := range uint64(20) {
			c := traffic.SampledClient{Key: i << 8, Client: traffic.NewClient(map[string]string{"user": fmt.Sprint("u", i)})}
			requests := 10
			if i == 0 {
				requests = 100
			}
			for range requests {
				c.Requests = binary.AppendUvarint(c.Requests, 60_000_000/2)
				c.Requests = binary.AppendUvarint(c.Requests, 1)
			}
			s.Clients = append(s.Clients, c)
		}
		return json.Marshal(traffic.NodeResponse{Sample: s})
	}
}

func TestWhatIfReplaysTheSamplesOfNodes(t *testing.T) {
	clock := newClock()
	s := open(t, api.Config{
		Now: clock.time, Node: engineOf(t, `{"rules":[]}`), NodeID: "a", NodeTraffic: sampleSource(t, clock.time()),
	})
	s.call("POST", "/v1/rules", `{"id":"search","key":["user"],"limits":["1000/h"]}`).wants(201)
	viewer := s.token("viewer", token.Viewer, "default")
	got := s.as(viewer, "POST", "/v1/whatif", `{"rule":"search","limits":["20/h fixed-window"],"window":"1h"}`).wants(200,
		`"requests":{"value":290,`, `"affected":{"value":1,`, `"top":[{"client":{"user":"u0"},"requests":100,`,
		`"current":{"limits":["1000/h"],"denied":{"value":0,`, `"unaffected_99":{"limit":`, `"state":"answered"`)
	d := described()
	if wrong := d.misfit(decoded(t, got.body), d.follow(map[string]any{"$ref": "#/components/schemas/WhatIf"}), "whatif"); wrong != "" {
		t.Error(wrong)
	}
	s.as(viewer, "POST", "/v1/whatif", `{"draft":{"id":"search","key":["user"],"limits":["1000/h"],"when":{"path":"/a"},`+
		`"overrides":[{"when":{"user":"u1"},"block":true}]}}`).wants(200, `"denied":{"value":10,`, `"The condition of the rule`)
	for body, status := range map[string]int{
		`{"rule":"other","limits":["1/s"]}`:                              404,
		`{"rule":"search"}`:                                              422,
		`{"rule":"search","limits":["1/s"],"window":"30h"}`:              422,
		`{"rule":"search","limits":["fast"]}`:                            422,
		`{"rule":"search","limits":["1/s"],"top":0}`:                     422,
		`{"draft":{"id":"search","key":["ip"],"limits":["1/s"]}}`:        422,
		`{"draft":{"id":"search","key":["user"],"limits":["nonsense"]}}`: 422,
	} {
		if got := s.as(viewer, "POST", "/v1/whatif", body); got.status != status {
			t.Errorf("%s: got %d %s, want %d", body, got.status, got.body, status)
		}
	}
}

// The rules service has the registered clients of all namespaces, also of those whose rules this process does not follow.
func TestWhatIfKnowsRegisteredClientsOfOtherNamespaces(t *testing.T) {
	clock := newClock()
	s := open(t, api.Config{Now: clock.time, Node: engineOf(t, `{"rules":[]}`), NodeID: "here", NodeNamespace: "here"})
	n := newFarNode(t, "far", perUserHour, memory(t), false)
	who, err := identity.New(identity.Config{})
	if err != nil {
		t.Fatal(err)
	}
	n.answerer = nodequery.NewResponder(n.engine, "default", who, sampleSource(t, clock.time()))
	n.beat(s, "")
	s.call("POST", "/v1/rules", `{"id":"search","key":["user"],"limits":["1000/h"]}`).wants(201)
	const whatIf = `{"rule":"search","limits":["20/h fixed-window"],"window":"1h"}`
	s.call("POST", "/v1/whatif", whatIf).wants(200, `"affected":{"value":1,`)
	s.call("PUT", "/v1/clients/u0", `{"id":"u0","attributes":{"user":["u0"]},"limits":["500/h"]}`).wants(201)
	s.call("POST", "/v1/whatif", whatIf).wants(200, `"affected":{"value":0,`, `"denied":{"value":0,`)
}

func TestWhatIfSaysThatSamplesAreOff(t *testing.T) {
	s := open(t, api.Config{Node: engineOf(t, `{"rules":[]}`), NodeID: "a", NodeTraffic: func(json.RawMessage) (json.RawMessage, error) {
		return json.Marshal(traffic.NodeResponse{SamplesOff: true})
	}})
	s.call("POST", "/v1/rules", `{"id":"search","key":["user"],"limits":["1000/h"]}`).wants(201)
	got := s.call("POST", "/v1/whatif", `{"rule":"search","limits":["20/h"]}`).wants(200,
		`"1 of 1 nodes have no samples of requests: their traffic.clients is off."`)
	if strings.Contains(got.body, "No node has sampled requests") {
		t.Errorf("got %s, want one reason only", got.body)
	}
}

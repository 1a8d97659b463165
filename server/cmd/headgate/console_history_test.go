package main

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/headgate/headgate/server/telemetry/traffic"
)

// addHistory reports an hour of traffic like that of the demo as another node, so that charts in pictures are full. The
// rules service keeps seconds for ten minutes and clients by the minute for an hour.
func (g *consoleGallery) addHistory(t *testing.T) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now().Unix()
	send := func(r traffic.Report) {
		t.Helper()
		r.Node, r.Started = "history", 1
		if err := g.at.Do(t.Context(), http.MethodPost, "/v1/traffic:report", nil, r, nil); err != nil {
			t.Fatal(err)
		}
	}
	const kept = 620
	for minute := now - now%60 - 59*60; minute < now; minute += 60 {
		load := (0.85 + 0.15*random.Float64()) * float64(min(now-minute, 60)) / 60
		count := func(client, rule string, requests, denied float64) traffic.ClientCount {
			return traffic.ClientCount{
				Client: traffic.NewClient(map[string]string{"host": client + ".demo.test"}), Rule: rule,
				Requests: uint64(load * requests), Denied: uint64(load * denied), Shadow: rule == "demo-search-shadow",
			}
		}
		send(traffic.Report{Minute: minute, Clients: []traffic.ClientCount{
			count("noisy", "demo-per-client", 1900, 1480), count("noisy", "demo-search-shadow", 1900, 1740),
			count("nightly-export", "demo-per-client", 160, 130), count("carol", "demo-per-client", 290, 0),
			count("carol", "demo-search-shadow", 290, 190), count("alice", "demo-per-client", 180, 0), count("bob", "demo-per-client", 110, 0),
		}})
	}
	var seconds []traffic.Second
	for at := now - kept; at < now; at++ {
		requests := uint64(38 + random.IntN(7))
		denied := requests*3/5 + uint64(random.IntN(4))
		if at%60 < 3 { // the burst of each minute
			requests, denied = requests+55, denied+45
		}
		counts := func(requests, denied, shadow uint64) traffic.Counts {
			return traffic.Counts{Requests: requests, Denied: denied, ShadowDenied: shadow, Cost: requests, Timed: 1, TookNS: 40_000}
		}
		searches := requests * 9 / 10
		seconds = append(seconds, traffic.Second{Unix: at, Rows: []traffic.Row{
			{Rule: traffic.Total, Counts: counts(requests, denied, searches*4/5)},
			{Rule: "demo-per-client", Counts: counts(requests-2, denied, 0)},
			{Rule: "demo-search-shadow", Counts: counts(searches, 0, searches*4/5)},
			{Rule: "demo-keys-per-address", Counts: counts(uint64(20+random.IntN(6)), 0, 0)},
			{Rule: "demo-per-key", Counts: counts(uint64(1+random.IntN(2)), 0, 0)},
		}})
	}
	send(traffic.Report{Seconds: seconds})
}

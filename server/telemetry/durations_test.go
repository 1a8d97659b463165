package telemetry_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/server/gateway"
	"github.com/headgate/headgate/server/telemetry"
)

func TestDurationsOfShardsRequestsAndUpstreams(t *testing.T) {
	m := telemetry.New("1.2.3")
	m.ObserveShard("a", 300*time.Microsecond)
	m.ObserveShard("b", time.Second)
	m.ObserveShard("a", 30*time.Millisecond)
	m.ObserveRequest(&gateway.Observation{Route: "shop", Duration: 3 * time.Millisecond, UpstreamDuration: 2 * time.Millisecond})
	m.ObserveRequest(&gateway.Observation{Duration: time.Millisecond}) // the limiter denied it
	m.ObserveRequest(&gateway.Observation{Route: "shop", Duration: time.Hour, UpstreamDuration: time.Hour, Upgraded: true})
	got := scrape(t, m)
	for name, want := range map[string]string{
		`headgate_store_shard_seconds_count{shard="a"}`:                  "2",
		`headgate_store_shard_seconds_count{shard="b"}`:                  "1",
		`headgate_store_shard_seconds_bucket{shard="a",le="0.0003"}`:     "1",
		`headgate_gateway_request_seconds_count`:                         "2",
		`headgate_gateway_request_seconds_bucket{le="0.001"}`:            "1",
		`headgate_upstream_request_seconds_count{route="shop"}`:          "1",
		`headgate_upstream_request_seconds_bucket{route="shop",le="30"}`: "1",
	} {
		if got[name] != want {
			t.Errorf("%s %q, want %q", name, got[name], want)
		}
	}
}

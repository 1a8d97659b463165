package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/bench/gateway"
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/site"
)

// sampleLoad is a table in which every front has the same rate times a factor, in three rounds.
func sampleLoad(id, title string, factors map[string]float64) harness.LoadTable {
	t := harness.LoadTable{ID: id, Title: title, Connections: 64}
	fronts := map[string][]site.Front{
		"proxies": gateway.ProxyFronts(), "http2": gateway.HTTP2Fronts(), "price": gateway.PriceFronts(),
		"refusals": gateway.RefusingFronts(), "large": gateway.PeerFronts(), "posts": gateway.PeerFronts(),
		"new-connections": gateway.PeerFronts(), "tls": gateway.HTTP2Fronts(), "access-log": gateway.LoggingFronts(),
		"connections-100": gateway.ConnectionFronts(), "connections-1000": gateway.ConnectionFronts(),
		"connections-4000": gateway.ConnectionFronts(),
	}[id]
	for _, f := range fronts {
		var loads []site.Load
		for _, machine := range []float64{10_000, 8_000, 12_000} {
			rate := machine * factors[f.Name]
			loads = append(loads, site.Load{
				Rate: rate, Requests: int64(rate), Took: time.Second, CPU: 980 * time.Millisecond, LoadBusy: 0.7,
				P99: 1200 * time.Microsecond,
			})
		}
		t.Rows = append(t.Rows, gateway.NewLoadRow(f, loads))
	}
	return t
}

func samplePace(us, them int64) *harness.PaceTable {
	t := &harness.PaceTable{Rate: 10_000, Full: 20_000, Connections: 64, Watched: true, First: true, Stalls: 3, Stalled: 9 * time.Millisecond, Took: time.Minute}
	for i, f := range gateway.PacedFronts() {
		row := harness.PaceRow{Contender: f.Name, Title: f.Title, Role: f.Role}
		for _, noise := range []int64{0, 900_000, 100_000} {
			run := harness.Pacing{Requests: 40_000, P50: 120_000, P99: []int64{us, them, 60_000}[i] + noise, P999: 2_000_000 + noise, Max: 5_000_000, Late: 15_000}
			run.Calm = harness.CalmPacing{Requests: 39_000, P50: run.P50, P99: run.P99, P999: run.P999}
			run.P99 *= 3 // with what stalls have touched
			row.Runs = append(row.Runs, run)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// sampleConnections is the table of a number of connections, with which each server has the same part of its rate.
func sampleConnections(connections int, part float64) harness.LoadTable {
	t := sampleLoad("connections-"+strconv.Itoa(connections), "Passing requests on", map[string]float64{
		"headgate-one": 4 * part, "headgate-redis": 3.5 * part, "nginx": 5 * part, "haproxy": 5 * part,
	})
	t.Connections = connections
	return t
}

func sampleSteady() *harness.PaceTable {
	t := &harness.PaceTable{Rate: 5000, Connections: 64, Watched: true, First: true, Took: time.Minute}
	for i, f := range gateway.PeerFronts() {
		row := harness.PaceRow{Contender: f.Name, Title: f.Title, Role: f.Role}
		for range 3 {
			run := harness.Pacing{Requests: 5000, P50: 50_000, P99: 300_000, P999: 900_000, Max: 5_000_000, Late: 5_000, Sent: 5250}
			run.CPU = time.Duration(5250*(55-5*i)) * time.Microsecond
			run.Calm = harness.CalmPacing{Requests: 4990, P50: run.P50, P99: run.P99, P999: run.P999}
			row.Runs = append(row.Runs, run)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func sampleNoise(with, without int64) *harness.PaceTable {
	t := &harness.PaceTable{Rate: 1000, Connections: 20, Watched: true, First: true, Took: time.Minute, Rows: []harness.PaceRow{
		{Contender: harness.WhenQuiet, Title: "nobody floods", Role: harness.Ours}, {Contender: harness.WhenFlooded, Title: "one client floods", Role: harness.Ours},
	}}
	for i, p99 := range []int64{without, with} {
		for _, slow := range []int64{1, 3, 2} { // as the machine is for a while
			run := harness.Pacing{Requests: 1000, P50: 50_000, P99: 5 * slow * p99, P999: 9 * slow * p99, Max: 5_000_000, Late: 5_000, Flooded: int64(i) * 5000, Refused: int64(i) * 4900}
			run.Calm = harness.CalmPacing{Requests: 990, P50: run.P50, P99: slow * p99, P999: 2 * slow * p99}
			t.Rows[i].Runs = append(t.Rows[i].Runs, run)
		}
	}
	return t
}

// sampleGateway meets all bars but those to reach for.
func sampleGateway() *harness.Results {
	r := &harness.Results{
		Part: "gateway", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Took: 11 * time.Minute, Sizes: harness.FullSizes(11), Machine: sampleMachine(),
		Versions: []harness.ModuleVersion{{Module: "nginx", Version: "1.2.3"}, {Module: "wrk", Version: "4.5.6"}},
		Load: []harness.LoadTable{
			sampleLoad("proxies", "Passing requests on", map[string]float64{
				"headgate": 2, "headgate-one": 2.05, "headgate-norules": 2.1, "headgate-open": 2.1, "reverse-proxy": 1, "nginx": 3.5, "haproxy": 3.6, "caddy": 0.5, "bare": 5, "direct": 9,
			}),
			sampleLoad("http2", "Passing requests on over HTTP/2 and TLS, 4 at once on each connection", map[string]float64{
				"headgate": 3, "nginx": 3.6, "haproxy": 4,
			}),
			sampleLoad("price", "Passing the same request on again and again", map[string]float64{
				"headgate": 2.02, "headgate-one": 2.06, "headgate-norules": 2.08, "headgate-open": 2.1, "direct": 9,
			}),
			sampleLoad("large", "Passing responses of 10 kB on", map[string]float64{"headgate-one": 1, "nginx": 1.1, "haproxy": 1.2}),
			sampleLoad("posts", "Passing requests of 10 kB on", map[string]float64{"headgate-one": 1, "nginx": 1.05, "haproxy": 1.2}),
			sampleLoad("new-connections", "Passing requests on, each on a new connection", map[string]float64{"headgate-one": 1, "nginx": 1.25, "haproxy": 1.2}),
			sampleLoad("tls", "Passing requests on over TLS", map[string]float64{"headgate": 1, "nginx": 1, "haproxy": 1.2}),
			sampleLoad("access-log", "Passing requests on, with and without an access log", map[string]float64{"headgate-one": 2, "nginx": 2.5, "headgate-log": 1.9, "nginx-log": 2.4}),
			sampleConnections(100, 1), sampleConnections(1000, 0.95), sampleConnections(4000, 0.8),
			sampleLoad("refusals", "Refusing every request", map[string]float64{"headgate": 4.5, "bare-429": 5, "nginx": 8, "haproxy": 7}),
		},
		Pace:   samplePace(400_000, 250_000),
		Steady: sampleSteady(),
		Noise:  sampleNoise(110_000, 100_000),
	}
	r.LoadNamed("refusals").Row("nginx").Busy = 0.7
	return r
}

func gatewayVerdict(t *testing.T, r *harness.Results, want string) string {
	t.Helper()
	for _, b := range gateway.Bars(r) {
		if b.Want == want {
			return b.Verdict
		}
	}
	t.Fatalf("no bar wants %q", want)
	return ""
}

func TestGatewayBarsFollowTheNumbers(t *testing.T) {
	slower := func(table, name string, times float64) func(*harness.Results) {
		return func(r *harness.Results) {
			row := r.LoadNamed(table).Row(name)
			for i := range row.Rates {
				row.Rates[i] *= times
			}
		}
	}
	for _, test := range []struct {
		bar           string
		change        func(*harness.Results)
		before, after string
	}{
		{"≤ 1.4 × nginx with limit_req", func(r *harness.Results) { r.LoadNamed("http2").Row("headgate").CPU *= 1.2 }, harness.Met, harness.NotMet},
		{"≥ 0.93 × the same gateway without limits", slower("price", "headgate-norules", 1.1), harness.Met, harness.NotMet},
		{"≥ 0.93 × the same gateway without limits (to reach for)", slower("price", "headgate-norules", 1.1), harness.Met, harness.NotMet},
		{"≤ 1.5 ms", func(r *harness.Results) { r.LoadNamed("refusals").Row("headgate").P99 = 1.6e6 }, harness.Met, harness.NotMet},
		{"≤ 1 × nginx with limit_req", func(r *harness.Results) { r.LoadNamed("refusals").Row("headgate").CPU /= 2 }, harness.NotMet, harness.Met},
		{"≤ 1.1 × nginx with limit_req", func(r *harness.Results) { r.LoadNamed("proxies").Row("headgate-one").CPU /= 2 }, harness.NotMet, harness.Met},
		{"≤ 200 µs more than the same gateway with nothing but the proxy in it", func(r *harness.Results) { r.Pace = samplePace(451_000, 250_000) }, harness.Met, harness.NotMet},
		{"≤ 200 µs more than the same gateway with nothing but the proxy in it", func(r *harness.Results) { r.Pace.Watched = false }, harness.Met, harness.NotMet},
		{"≤ 200 µs more than the same gateway with nothing but the proxy in it", func(r *harness.Results) { // but for one window, stalls touched most
			r.Pace = samplePace(451_000, 250_000)
			us, them := r.Pace.Row("headgate").Runs, r.Pace.Row("headgate-open").Runs
			us[0].Calm.Requests, them[1].Calm.Requests = 19_999, 0
			us[2].Calm.P99 = them[2].Calm.P99
		}, harness.Met, harness.Met},
		{"≤ 1.2 × what it is without the flood", func(r *harness.Results) { r.Noise = sampleNoise(121_000, 100_000) }, harness.Met, harness.NotMet},
		{"≤ 1.2 × what it is without the flood", func(r *harness.Results) { r.Noise = nil }, harness.Met, harness.NotMeasured},
		{"≥ 1.8 × a tuned httputil.ReverseProxy", slower("proxies", "reverse-proxy", 1.15), harness.Met, harness.NotMet},
		{"≥ 2.2 × a tuned httputil.ReverseProxy (to reach for)", slower("proxies", "reverse-proxy", 0.9), harness.NotMet, harness.Met},
		{"≥ 0.5 × nginx with limit_req", slower("proxies", "nginx", 1.2), harness.Met, harness.NotMet},
		{"≥ 0.65 × nginx with limit_req (to reach for)", slower("proxies", "nginx", 0.8), harness.NotMet, harness.Met},
		{"≥ 0.5 × nginx with limit_req", func(r *harness.Results) { // it waits for the load half of the time
			row := r.LoadNamed("proxies").Row("nginx")
			row.Busy, row.CPU = 0.5, row.CPU/2
		}, harness.Met, harness.NotMet},
		{"≥ 3 × Caddy", slower("proxies", "caddy", 1.4), harness.Met, harness.NotMet},
		{"≤ 1.15 × nginx with limit_req", func(r *harness.Results) { r.LoadNamed("large").Row("headgate-one").CPU *= 1.2 }, harness.Met, harness.NotMet},
		{"≤ 1.3 × nginx with limit_req", func(r *harness.Results) { r.LoadNamed("new-connections").Row("headgate-one").CPU *= 1.2 }, harness.Met, harness.NotMet},
		{"≤ 1.05 × nginx with limit_req", func(r *harness.Results) { r.LoadNamed("tls").Row("headgate").CPU *= 1.2 }, harness.Met, harness.NotMet},
		{"≤ 1.1 × headgate without it", func(r *harness.Results) { r.LoadNamed("access-log").Row("headgate-log").CPU *= 1.2 }, harness.Met, harness.NotMet},
		{"≤ 1.1 × headgate without it", func(r *harness.Results) { r.LoadNamed("access-log").Rows = nil }, harness.Met, harness.NotMeasured},
		{"≤ 5 µs more than in memory", func(r *harness.Results) { r.LoadNamed("connections-100").Row("headgate-redis").CPU += 5 }, harness.Met, harness.NotMet},
		{"≥ 0.9 × with 100", slower("connections-1000", "headgate-one", 0.9), harness.Met, harness.NotMet},
		{"≤ 1.2 × nginx with limit_req", func(r *harness.Results) { r.Steady.Rows[0].Runs[0].CPU *= 2 }, harness.Met, harness.NotMet},
		{"≥ 0.85 × a bare handler that writes 429", slower("refusals", "bare-429", 1.1), harness.Met, harness.NotMet},
	} {
		r := sampleGateway()
		if got := gatewayVerdict(t, r, test.bar); got != test.before {
			t.Errorf("before: %q is %q, want %q", test.bar, got, test.before)
		}
		test.change(r)
		if got := gatewayVerdict(t, r, test.bar); got != test.after {
			t.Errorf("after: %q is %q, want %q", test.bar, got, test.after)
		}
	}
}

// A machine that is slow in a round is slow for all: what counts is who was faster in the same round.
func TestRatiosAreTakenRoundByRound(t *testing.T) {
	us, them := &harness.LoadRow{Rates: []float64{20, 10, 40}}, &harness.LoadRow{Rates: []float64{10, 20, 10}}
	if got := us.Against(them); got.Median != 2 || got.Max != 4 || got.Min != 0.5 {
		t.Errorf("got %+v, want 2 with 0.5 and 4 around it", got)
	}
	runs := func(p99s ...int64) *harness.PaceRow {
		row := &harness.PaceRow{}
		for _, p99 := range p99s {
			row.Runs = append(row.Runs, harness.Pacing{Requests: 1, P99: p99})
		}
		return row
	}
	added := runs(5, 90, 7).Added(runs(4, 80, 9), harness.P99)
	if added.Median != 1 || added.Min != -2 || added.Max != 10 {
		t.Errorf("got %+v, want 1 with -2 and 10 around it", added)
	}
}

func TestGatewayBarsOfNothingAreNotMeasured(t *testing.T) {
	bars := gateway.Bars(&harness.Results{Sizes: harness.FullSizes(11)})
	if len(bars) != len(gateway.Bars(sampleGateway())) {
		t.Errorf("%d bars without numbers, %d with", len(bars), len(gateway.Bars(sampleGateway())))
	}
	for _, b := range bars {
		if b.Verdict != harness.NotMeasured || b.Measured != "" || strings.Contains(b.Want, "  ") {
			t.Errorf("bar %q, %q is %q, %q, want not measured", b.What, b.Want, b.Verdict, b.Measured)
		}
	}
}

func TestWhatWrkSawMustBeWhatAFrontIsToDo(t *testing.T) {
	passes, refuses := &site.OpenFront{}, &site.OpenFront{Front: site.Front{Refuses: true}}
	for _, test := range []struct {
		name  string
		front *site.OpenFront
		run   site.WrkRun
		ok    bool
	}{
		{"all pass", passes, site.WrkRun{Requests: 10}, true},
		{"one is refused", passes, site.WrkRun{Requests: 10_000, Refused: 1}, false},
		{"a connection breaks", passes, site.WrkRun{Requests: 10_000, Read: 1}, false},
		{"a connection is not opened", refuses, site.WrkRun{Requests: 10_000, Refused: 10_000, Connect: 1}, false},
		{"all are refused", refuses, site.WrkRun{Requests: 10_000, Refused: 10_000}, true},
		{"one a minute passes", refuses, site.WrkRun{Requests: 10_000, Refused: 9_999}, true},
		{"many pass", refuses, site.WrkRun{Requests: 10_000, Refused: 9_900}, false},
	} {
		if err := test.front.Fits(test.run); (err == nil) != test.ok {
			t.Errorf("%s: %v, want no error: %v", test.name, err, test.ok)
		}
	}
	if got := (site.WrkRun{Micros: 500_000, Requests: 10_000}).PerSecond(); got != 20_000 {
		t.Errorf("10000 requests in half a second are %v a second, want 20000", got)
	}
}

func TestOnlyOursAndTheLoadAloneArePaced(t *testing.T) {
	var names []string
	for _, f := range gateway.PacedFronts() {
		names = append(names, f.Name)
	}
	if want := []string{"headgate", "headgate-open", "direct"}; !slices.Equal(names, want) {
		t.Errorf("paced are %v, want %v", names, want)
	}
}

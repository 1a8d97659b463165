package gateway

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/bench/harness"
)

// Bars compares the results of the gateway with its bars.
func Bars(r *harness.Results) []harness.Bar {
	proxies, price, refusals := r.LoadNamed("proxies"), r.LoadNamed("price"), r.LoadNamed("refusals")
	bars := []harness.Bar{
		faster(price, oneLimitName, noRulesName, "the limiter's price, clients repeat themselves, one of 100 rules applies",
			0.93, ""),
		fasterThan(price, noRulesName, "the limiter's price, clients repeat themselves, three of them apply", 0.93,
			" (to reach for)"),
		faster(proxies, oneLimitName, noRulesName, "the limiter's price, another client each time, one of 100 rules applies",
			0.93, ""),
		fasterThan(proxies, noRulesName, "the limiter's price, another client each time, three of them apply", 0.93,
			" (to reach for)"),
		addsLittle(r.Pace, openGatewayName, 200*time.Microsecond),
		fasterThan(proxies, "reverse-proxy", "passing on", 1.8, ""),
		fasterThan(proxies, "reverse-proxy", "passing on", 2.2, " (to reach for)"),
		fasterThan(proxies, "nginx", "passing on", 0.5, ""),
		fasterThan(proxies, "nginx", "passing on", 0.65, " (to reach for)"),
		fasterThan(proxies, "caddy", "passing on", 3, ""),
		cheaperThanNginx(proxies, oneLimitName, "passing on, one of 100 rules applies, CPU time of a request", 1.1, ""),
		cheaperThanNginx(r.LoadNamed("http2"), "headgate", "HTTP/2 over TLS, CPU time of a request", 1.4, ""),
		cheaperThanNginx(r.LoadNamed("http2"), "headgate", "HTTP/2 over TLS, CPU time of a request", 1.15, " (to reach for)"),
		fasterThan(refusals, "bare-429", "refusing everybody", 0.85, ""),
		cheaperThanNginx(refusals, "headgate", "refusing everybody, CPU time of a request", 1, ""),
		prompt(refusals, "refusing everybody at full load, p99", 1500*time.Microsecond),
		disturbsLittle(r.Noise, 1.2),
	}
	return append(bars, caseBars(r)...)
}

// gatewayTitles are the names that bars use for the servers with which headgate is compared.
var gatewayTitles = map[string]string{
	noRulesName:     "the same gateway without limits",
	openGatewayName: "the same gateway with nothing but the proxy in it",
	"reverse-proxy": "a tuned httputil.ReverseProxy",
	"nginx":         "nginx with limit_req",
	"caddy":         "Caddy",
	"bare-429":      "a bare handler that writes 429",
}

// fasterThan is the bar of serving a multiple of the requests of another server.
func fasterThan(t *harness.LoadTable, name, what string, times float64, note string) harness.Bar {
	return faster(t, "headgate", name, what, times, note)
}

func faster(t *harness.LoadTable, one, name, what string, times float64, note string) harness.Bar {
	want := fmt.Sprintf("≥ %g × %s%s", times, gatewayTitles[name], note)
	us, them := t.Row(one), t.Row(name)
	if us == nil || them == nil {
		return harness.UnmeasuredBar(what, want)
	}
	ratio := us.Against(them)
	measured := fmt.Sprintf("%.2f × (quartiles %.2f–%.2f; %s against %s/s", ratio.Median, ratio.Q1, ratio.Q3,
		harness.HumanRate(us.Rate.Median), harness.HumanRate(them.Rate.Median))
	judge := ratio.Median
	if !them.Full() {
		// The peer was not saturated and could have served more. Its CPU time per response shows how many.
		byCPU := them.CPU / us.CPU
		measured += fmt.Sprintf("; it was not at its end, by CPU %.2f ×", byCPU)
		judge = min(judge, byCPU)
	}
	return harness.JudgedBar(what, want, measured+")", judge >= times)
}

// cheaperThanNginx is the bar of using at most a multiple of nginx's CPU time per request.
func cheaperThanNginx(t *harness.LoadTable, one, what string, times float64, note string) harness.Bar {
	const name = "nginx"
	want := fmt.Sprintf("≤ %g × %s%s", times, gatewayTitles[name], note)
	us, them := t.Row(one), t.Row(name)
	if us == nil || them == nil {
		return harness.UnmeasuredBar(what, want)
	}
	ratio := us.CPU / them.CPU
	measured := fmt.Sprintf("%.2f × (%.1f against %.1f µs)", ratio, us.CPU, them.CPU)
	return harness.JudgedBar(what, want, measured, ratio <= times)
}

// prompt is the bar of responding to 99 of 100 requests within a given time.
func prompt(t *harness.LoadTable, what string, most time.Duration) harness.Bar {
	want := "≤ " + harness.HumanDuration(float64(most))
	us := t.Row("headgate")
	if us == nil || us.P99 == 0 {
		return harness.UnmeasuredBar(what, want)
	}
	return harness.JudgedBar(what, want, harness.HumanDuration(us.P99), us.P99 <= float64(most))
}

// addsLittle is the bar of adding at most a given time to another server's p99. If stalls were watched for, it is
// checked for the requests that no stall has touched, and the figure for all requests is reported too.
func addsLittle(t *harness.PaceTable, name string, most time.Duration) harness.Bar {
	what := "half load, p99"
	want := fmt.Sprintf("≤ %d µs more than %s", most.Microseconds(), gatewayTitles[name])
	us, them := t.Row("headgate"), t.Row(name)
	if us == nil || them == nil {
		return harness.UnmeasuredBar(what, want)
	}
	all := us.Added(them, harness.P99)
	if !t.Watched {
		return harness.JudgedBar(what, want,
			fmt.Sprintf("%+.0f µs (quartiles %+.0f–%+.0f; %s against %s at %s/s; stalls could not be watched for)",
				all.Median/1e3, all.Q1/1e3, all.Q3/1e3, harness.HumanDuration(us.Spread(harness.P99).Median), harness.HumanDuration(
					them.Spread(harness.P99).Median),
				harness.HumanRate(t.Rate)), all.Median <= float64(most))
	}
	added := us.Calmly().Added(them.Calmly(), calmP99)
	return harness.JudgedBar(what, want,
		fmt.Sprintf("%+.0f µs (quartiles %+.0f–%+.0f; %s against %s at %s/s); with the %.1f %% and %.1f %% that stalls touched %+.0f µs",
			added.Median/1e3, added.Q1/1e3, added.Q3/1e3, harness.HumanDuration(us.Calmly().Spread(calmP99).Median),
			harness.HumanDuration(them.Calmly().Spread(calmP99).Median), harness.HumanRate(
				t.Rate), 100*us.Touched(), 100*them.Touched(), all.Median/1e3),
		added.Median <= float64(most))
}

// disturbsLittle is the bar that a flooding client increases the p99 of other clients by at most a given factor. If
// stalls were watched for, it is checked for the requests that no stall has touched.
func disturbsLittle(t *harness.PaceTable, times float64) harness.Bar {
	what := "one client floods, p99 of the others"
	want := fmt.Sprintf("≤ %g × what it is without the flood", times)
	with, without := t.Row(harness.WhenFlooded), t.Row(harness.WhenQuiet)
	if with == nil || without == nil {
		return harness.UnmeasuredBar(what, want)
	}
	sent, refused := with.Flood()
	of := harness.P99
	if t.Watched {
		with, without, of = with.Calmly(), without.Calmly(), calmP99
	}
	ratio := with.Times(without, of)
	return harness.JudgedBar(what, want,
		fmt.Sprintf("%.2f × (quartiles %.2f–%.2f; %s against %s; %.1f %% of the flood were refused, and nobody else)",
			ratio.Median, ratio.Q1, ratio.Q3, harness.HumanDuration(with.Spread(of).Median), harness.HumanDuration(
				without.Spread(of).Median),
			100*float64(refused)/float64(max(sent, 1))), ratio.Median <= times)
}

func late(p harness.Pacing) int64 { return p.Late }

func calmP99(p harness.Pacing) int64 { return p.Calm.P99 }

func calmP999(p harness.Pacing) int64 { return p.Calm.P999 }

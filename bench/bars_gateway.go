package main

import (
	"fmt"
	"time"
)

// gatewayBars holds the results at the gateway against their bars.
func gatewayBars(r *results) []bar {
	proxies, price, refusals := r.load("proxies"), r.load("price"), r.load("refusals")
	return []bar{
		faster(price, oneLimitName, noRulesName, "the limiter's price, clients repeat themselves, one of 100 rules applies", 0.93, ""),
		fasterThan(price, noRulesName, "the limiter's price, clients repeat themselves, three of them apply", 0.93, " (to reach for)"),
		faster(proxies, oneLimitName, noRulesName, "the limiter's price, another client each time, one of 100 rules applies", 0.93, ""),
		fasterThan(proxies, noRulesName, "the limiter's price, another client each time, three of them apply", 0.93, " (to reach for)"),
		addsLittle(r.Pace, openGatewayName, 200*time.Microsecond),
		fasterThan(proxies, "reverse-proxy", "passing on", 1.8, ""),
		fasterThan(proxies, "reverse-proxy", "passing on", 2.2, " (to reach for)"),
		fasterThan(proxies, "nginx", "passing on", 0.5, ""),
		fasterThan(proxies, "nginx", "passing on", 0.65, " (to reach for)"),
		fasterThan(proxies, "caddy", "passing on", 3, ""),
		fasterThan(refusals, "bare-429", "refusing everybody", 0.85, ""),
		disturbsLittle(r.Noise, 1.2),
	}
}

// gatewayTitles are how bars call those that headgate is held against.
var gatewayTitles = map[string]string{
	noRulesName:     "the same gateway without limits",
	openGatewayName: "the same gateway with nothing but the proxy in it",
	"reverse-proxy": "a tuned httputil.ReverseProxy",
	"nginx":         "nginx with limit_req",
	"caddy":         "Caddy",
	"bare-429":      "a bare handler that writes 429",
}

// fasterThan is the bar of answering so many times as many requests as another.
func fasterThan(t *loadTable, name, what string, times float64, note string) bar {
	return faster(t, "headgate", name, what, times, note)
}

func faster(t *loadTable, one, name, what string, times float64, note string) bar {
	want := fmt.Sprintf("≥ %g × %s%s", times, gatewayTitles[name], note)
	us, them := t.row(one), t.row(name)
	if us == nil || them == nil {
		return unmeasured(what, want)
	}
	ratio := us.against(them)
	measured := fmt.Sprintf("%.2f × (quartiles %.2f–%.2f; %s against %s/s", ratio.Median, ratio.Q1, ratio.Q3,
		humanRate(us.Rate.Median), humanRate(them.Rate.Median))
	judge := ratio.Median
	if !them.full() {
		// The peer was not saturated and could have answered more. Its CPU time for each response says how many.
		byCPU := them.CPU / us.CPU
		measured += fmt.Sprintf("; it was not at its end, by CPU %.2f ×", byCPU)
		judge = min(judge, byCPU)
	}
	return judged(what, want, measured+")", judge >= times)
}

// addsLittle is the bar of adding no more than that to another's p99. It is held against the requests that no stall has touched,
// if stalls were watched for, and what all requests say stands beside it.
func addsLittle(t *paceTable, name string, most time.Duration) bar {
	what := "half load, p99"
	want := fmt.Sprintf("≤ %d µs more than %s", most.Microseconds(), gatewayTitles[name])
	us, them := t.row("headgate"), t.row(name)
	if us == nil || them == nil {
		return unmeasured(what, want)
	}
	all := us.added(them, p99)
	if !t.Watched {
		return judged(what, want, fmt.Sprintf("%+.0f µs (quartiles %+.0f–%+.0f; %s against %s at %s/s; stalls could not be watched for)",
			all.Median/1e3, all.Q1/1e3, all.Q3/1e3, humanDuration(us.spread(p99).Median), humanDuration(them.spread(p99).Median),
			humanRate(t.Rate)), all.Median <= float64(most))
	}
	added := us.calmly().added(them.calmly(), calmP99)
	return judged(what, want, fmt.Sprintf("%+.0f µs (quartiles %+.0f–%+.0f; %s against %s at %s/s); with the %.1f %% and %.1f %% that stalls touched %+.0f µs",
		added.Median/1e3, added.Q1/1e3, added.Q3/1e3, humanDuration(us.calmly().spread(calmP99).Median),
		humanDuration(them.calmly().spread(calmP99).Median), humanRate(t.Rate), 100*us.touched(), 100*them.touched(), all.Median/1e3),
		added.Median <= float64(most))
}

// disturbsLittle is the bar of keeping others' p99 within so many times what it is when nobody floods. It is held against the
// requests that no stall has touched, if stalls were watched for.
func disturbsLittle(t *paceTable, times float64) bar {
	what := "one client floods, p99 of the others"
	want := fmt.Sprintf("≤ %g × what it is without the flood", times)
	with, without := t.row(whenFlooded), t.row(whenQuiet)
	if with == nil || without == nil {
		return unmeasured(what, want)
	}
	sent, refused := with.flood()
	of := p99
	if t.Watched {
		with, without, of = with.calmly(), without.calmly(), calmP99
	}
	ratio := with.times(without, of)
	return judged(what, want, fmt.Sprintf("%.2f × (quartiles %.2f–%.2f; %s against %s; %.1f %% of the flood were refused, and nobody else)",
		ratio.Median, ratio.Q1, ratio.Q3, humanDuration(with.spread(of).Median), humanDuration(without.spread(of).Median),
		100*float64(refused)/float64(max(sent, 1))), ratio.Median <= times)
}

func p50(p pacing) int64  { return p.P50 }
func p99(p pacing) int64  { return p.P99 }
func p999(p pacing) int64 { return p.P999 }
func late(p pacing) int64 { return p.Late }

func calmP50(p pacing) int64  { return p.Calm.P50 }
func calmP99(p pacing) int64  { return p.Calm.P99 }
func calmP999(p pacing) int64 { return p.Calm.P999 }

func humanRate(perSecond float64) string { return grouped(fmt.Sprintf("%.0f", perSecond)) }

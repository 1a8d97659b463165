package gateway

import (
	"fmt"

	"github.com/headgate/headgate/bench/harness"
)

// caseBars are the bars of the scenarios in cases.go.
func caseBars(r *harness.Results) []harness.Bar {
	logs := r.LoadNamed("access-log")
	some := r.LoadNamed(tableOf("connections", someConnections))
	many := r.LoadNamed(tableOf("connections", manyConnections))
	return []harness.Bar{
		cheaperThanNginx(r.LoadNamed("large"), oneLimitName, "responses of 10 kB, CPU time of a request", 1.15, ""),
		cheaperThanNginx(r.LoadNamed("posts"), oneLimitName, "requests of 10 kB, CPU time of a request", 1.1, ""),
		cheaperThanNginx(r.LoadNamed("new-connections"), oneLimitName, "a new connection each time, CPU time of a request",
			1.3, ""),
		cheaperThanNginx(r.LoadNamed("tls"), "headgate", "TLS, CPU time of a request", 1.05, ""),
		steadilyCheap(r.Steady, 1.2),
		cheaper(logs.Row(loggingName), logs.Row(oneLimitName), "an access log of every request, CPU time of a request", 1.1,
			"headgate without it"),
		costsLittle(some, 5),
		keepsUp(some, many, oneLimitName, "in memory", 0.9),
		keepsUp(some, many, redisName, "in Redis", 0.9),
		asPrompt(r.LoadNamed(tableOf("connections", mostConnections)), 1.2),
	}
}

// cheaper is the bar of using at most a multiple of another server's CPU time per request.
func cheaper(us, them *harness.LoadRow, what string, times float64, title string) harness.Bar {
	want := fmt.Sprintf("≤ %g × %s", times, title)
	if us == nil || them == nil {
		return harness.UnmeasuredBar(what, want)
	}
	ratio := us.CPU / them.CPU
	measured := fmt.Sprintf("%.2f × (%.1f against %.1f µs)", ratio, us.CPU, them.CPU)
	return harness.JudgedBar(what, want, measured, ratio <= times)
}

// steadilyCheap is the bar of using at most a multiple of nginx's CPU time per request while most of the core is idle.
func steadilyCheap(t *harness.PaceTable, times float64) harness.Bar {
	what := fmt.Sprintf("%d requests a second, CPU time of a request", steadyRate)
	want := fmt.Sprintf("≤ %g × nginx with limit_req", times)
	us, them := t.Row(oneLimitName), t.Row("nginx")
	if us == nil || them == nil || them.CPUOfARequest() == 0 {
		return harness.UnmeasuredBar(what, want)
	}
	ratio := us.CPUOfARequest() / them.CPUOfARequest()
	measured := fmt.Sprintf("%.2f × (%.1f against %.1f µs)", ratio, us.CPUOfARequest(), them.CPUOfARequest())
	return harness.JudgedBar(what, want, measured, ratio <= times)
}

// costsLittle is the bar of using at most some microseconds more per request if limits are counted in Redis.
func costsLittle(t *harness.LoadTable, micros float64) harness.Bar {
	what, want := "limits counted in Redis, CPU time of a request", fmt.Sprintf("≤ %g µs more than in memory", micros)
	us, them := t.Row(redisName), t.Row(oneLimitName)
	if us == nil || them == nil {
		return harness.UnmeasuredBar(what, want)
	}
	more := us.CPU - them.CPU
	measured := fmt.Sprintf("%+.1f µs (%.1f against %.1f)", more, us.CPU, them.CPU)
	return harness.JudgedBar(what, want, measured, more <= micros)
}

// keepsUp is the bar of serving with many connections a share of what is served with some.
func keepsUp(some, many *harness.LoadTable, name, where string, share float64) harness.Bar {
	what := fmt.Sprintf("%d connections, limits counted %s", manyConnections, where)
	want := fmt.Sprintf("≥ %g × with %d", share, someConnections)
	us, them := many.Row(name), some.Row(name)
	if us == nil || them == nil {
		return harness.UnmeasuredBar(what, want)
	}
	ratio := us.Against(them)
	measured := fmt.Sprintf("%.2f × (quartiles %.2f–%.2f; %s against %s/s", ratio.Median, ratio.Q1, ratio.Q3,
		harness.HumanRate(us.Rate.Median), harness.HumanRate(them.Rate.Median))
	if us, them := many.Row("nginx"), some.Row("nginx"); us != nil && them != nil {
		measured += fmt.Sprintf("; nginx %.2f ×", us.Against(them).Median)
	}
	return harness.JudgedBar(what, want, measured+")", ratio.Median >= share)
}

// asPrompt is the bar of a p99 that is at most a multiple of nginx's.
func asPrompt(t *harness.LoadTable, times float64) harness.Bar {
	what := fmt.Sprintf("%d active connections, p99", mostConnections)
	want := fmt.Sprintf("≤ %g × nginx with limit_req", times)
	us, them := t.Row(oneLimitName), t.Row("nginx")
	if us == nil || them == nil || them.P99 == 0 {
		return harness.UnmeasuredBar(what, want)
	}
	ratio := us.P99 / them.P99
	measured := fmt.Sprintf("%.2f × (%s against %s)", ratio, harness.HumanDuration(us.P99),
		harness.HumanDuration(them.P99))
	return harness.JudgedBar(what, want, measured, ratio <= times)
}

package loadgen

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Report has the results of a run, which may still be running.
type Report struct {
	Target string `json:"target"`
	// Rate is the intended rate, or 0 for a saturated target.
	Rate        float64 `json:"rate_per_second"`
	Connections int     `json:"connections"`
	Clients     int     `json:"clients"`
	Seconds     float64 `json:"seconds"`
	// Sent counts requests that got a response or failed. Unsent counts requests that were due but were not sent, because
	// all connections were busy until the end. Interrupted counts requests that were in flight when the run was
	// interrupted; they are neither sent nor unsent. Latency has the times that all of them waited.
	Sent        int64 `json:"sent"`
	Unsent      int64 `json:"unsent"`
	Interrupted int64 `json:"interrupted"`
	Admitted    int64 `json:"admitted"`
	Denied      int64 `json:"denied"`
	Degraded    int64 `json:"degraded"`
	// Errors counts requests that failed, including those without a response until the end of the run.
	Errors int64 `json:"errors"`
	// FirstError is the first error, if there was one.
	FirstError string `json:"first_error,omitempty"`
	// Achieved is the number of decisions per second, without failed requests.
	Achieved float64 `json:"achieved_per_second"`
	// Latency is measured from the time at which a request was due, and Service from the time at which it was sent.
	Latency Latency `json:"latency"`
	Service Latency `json:"service"`
	// PerSecond is the number of decisions in each second.
	PerSecond []int64 `json:"answered_per_second"`
}

// A Latency is the distribution of times, in microseconds.
type Latency struct {
	MeanMicros  float64      `json:"mean_us"`
	MinMicros   float64      `json:"min_us"`
	MaxMicros   float64      `json:"max_us"`
	Percentiles []Percentile `json:"percentiles"`
}

// A Percentile is a time in microseconds that the given percentage of requests did not exceed.
type Percentile struct {
	Percentile float64 `json:"percentile"`
	Micros     float64 `json:"us"`
}

// percentiles are the percentiles that a Latency contains.
var percentiles = []float64{50, 75, 90, 95, 99, 99.9, 99.99}

// At returns the time of a percentile, or 0 if it is not in Percentiles.
func (l Latency) At(percentile float64) time.Duration {
	for _, p := range l.Percentiles {
		if p.Percentile == percentile {
			return time.Duration(p.Micros * float64(time.Microsecond))
		}
	}
	return 0
}

func micros(ns int64) float64 { return float64(ns) / float64(time.Microsecond) }

func newLatency(h *hdrhistogram.Histogram) Latency {
	l := Latency{MeanMicros: h.Mean() / float64(time.Microsecond), MinMicros: micros(h.Min()), MaxMicros: micros(h.Max())}
	for _, p := range percentiles {
		l.Percentiles = append(l.Percentiles, Percentile{p, micros(h.ValueAtQuantile(p))})
	}
	return l
}

// Max returns the longest time.
func (l Latency) Max() time.Duration { return time.Duration(l.MaxMicros * float64(time.Microsecond)) }

// Report returns the results so far.
func (r *Run) Report() Report {
	m := r.stats.merge()
	elapsed := r.stats.elapsed()
	report := Report{
		Target: r.o.Name, Rate: r.o.Rate, Connections: r.o.Connections, Clients: r.o.Clients, Seconds: elapsed.Seconds(),
		Sent: m.admitted + m.denied + m.errors, Unsent: m.unsent, Interrupted: m.interrupted,
		Admitted: m.admitted, Denied: m.denied, Degraded: m.degraded, Errors: m.errors,
		Latency: newLatency(m.latency), Service: newLatency(m.service),
		PerSecond: m.perSecond[:min(len(m.perSecond), int(elapsed.Seconds())+1)],
	}
	if m.err != nil {
		report.FirstError = m.err.Error()
	}
	if elapsed > 0 {
		report.Achieved = float64(m.admitted+m.denied) / elapsed.Seconds()
	}
	return report
}

package sim

import (
	"math"
	"slices"
	"time"

	"github.com/headgate/headgate/server/sim/scenario"
)

// A Result is the outcome of a variant.
type Result struct {
	Algorithm string   `json:"algorithm"`
	Mode      string   `json:"mode"`
	Limits    []string `json:"limits"`
	// Partial reports whether the simulation was interrupted. Simulated is the time that was simulated.
	Partial   bool    `json:"partial"`
	Simulated float64 `json:"simulated_seconds"`
	Nodes     int     `json:"nodes"`

	Requests int64 `json:"requests"`
	Retries  int64 `json:"retries"`
	Admitted int64 `json:"admitted"`
	Denied   int64 `json:"denied"`
	// Degraded counts decisions by policies. Unserved counts the requests that no node has decided, because none was
	// running, or because the node crashed meanwhile.
	Degraded int64 `json:"degraded"`
	Unserved int64 `json:"unserved"`
	// WronglyAdmitted counts requests that were admitted although the limit had no room for them. WronglyDenied counts
	// requests that were denied although the limit had room. A request that is wrong only because of the units of earlier
	// wrong requests does not count.
	WronglyAdmitted int64 `json:"wrongly_admitted"`
	WronglyDenied   int64 `json:"wrongly_denied"`
	// MaxExcess is the largest number of units by which a client exceeded its limit at any time.
	MaxExcess int64 `json:"max_excess"`
	// Burstiness is the standard deviation of admissions per 100 ms, divided by their mean. It is 0 if all intervals have
	// the same number of admissions.
	Burstiness float64 `json:"burstiness"`

	Latency Latency `json:"added_latency"`

	RedisCalls int64 `json:"redis_calls"`
	// RedisLoad is the part of the time in which the busiest Redis server worked, from 0 to 1.
	RedisLoad float64 `json:"redis_load"`
	BytesSent int64   `json:"bytes_sent"`
	// BytesBetweenRegions is the part of BytesSent that was sent from one region to another.
	BytesBetweenRegions int64 `json:"bytes_between_regions,omitempty"`
	// Events is the number of simulated events.
	Events int64 `json:"events"`

	// Series contains the counts over time.
	Series Series `json:"series"`
	Marks  []Mark `json:"marks,omitempty"`

	now      time.Duration // time that was simulated
	latency  histogram
	slots    []int64 // admissions per burstStep
	duration time.Duration
	logs     []Log
}

// Latency is the distribution of the time that decisions take, in µs.
type Latency struct {
	Mean float64 `json:"mean_us"`
	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
	P999 float64 `json:"p999_us"`
	Max  float64 `json:"max_us"`
}

// Series contains counts over time. Each element is the count of one step.
type Series struct {
	StepSeconds     float64 `json:"step_seconds"`
	Requests        []int64 `json:"requests"`
	Admitted        []int64 `json:"admitted"`
	WronglyAdmitted []int64 `json:"wrongly_admitted"`
	WronglyDenied   []int64 `json:"wrongly_denied"`
	RedisCalls      []int64 `json:"redis_calls"`
}

// A Mark is the time at which a fault began.
type Mark struct {
	Seconds float64 `json:"seconds"`
	Text    string  `json:"text"`
}

type seriesIndex int

const (
	seriesRequests seriesIndex = iota
	seriesAdmitted
	seriesWronglyAdmitted
	seriesWronglyDenied
	seriesRedis
)

const (
	seriesSteps = 120
	burstStep   = 100 * time.Millisecond
	maxSlots    = 1 << 20 // limits the memory of long simulations
)

func newResult(s *scenario.Scenario, v scenario.Variant) *Result {
	r := &Result{
		Algorithm: v.Algorithm().String(), Mode: v.Mode.String(), Nodes: s.AllNodes(), duration: s.Duration,
		slots: make([]int64, min(int(s.Duration/burstStep)+1, maxSlots)),
	}
	for _, l := range v.Limits {
		r.Limits = append(r.Limits, l.String())
	}
	r.Series.StepSeconds = s.Duration.Seconds() / seriesSteps
	for i := range seriesRedis + 1 {
		*r.Series.list(i) = make([]int64, seriesSteps)
	}
	return r
}

func (s *Series) list(i seriesIndex) *[]int64 {
	return [...]*[]int64{&s.Requests, &s.Admitted, &s.WronglyAdmitted, &s.WronglyDenied, &s.RedisCalls}[i]
}

// count adds 1 to a total and to a series.
func (r *Result) count(now time.Duration, total *int64, i seriesIndex) {
	r.countSeveral(now, total, i, 1)
}

// countSeveral adds n to a total and to a series.
func (r *Result) countSeveral(now time.Duration, total *int64, i seriesIndex, n int64) {
	*total += n
	(*r.Series.list(i))[min(int(float64(now)/float64(r.duration)*seriesSteps), seriesSteps-1)] += n
}

// mark records the time at which a fault began.
func (r *Result) mark(now time.Duration, text string) {
	r.Marks = append(r.Marks, Mark{now.Seconds(), text})
}

// record adds a decided request.
func (r *Result) record(q *request) {
	now := q.endedAt
	r.latency.add(now - q.startedAt)
	if q.degraded {
		r.Degraded++
	}
	if !q.allowed {
		r.Denied++
		if q.wrong {
			r.count(now, &r.WronglyDenied, seriesWronglyDenied)
		}
		return
	}
	r.count(now, &r.Admitted, seriesAdmitted)
	if slot := int(now / burstStep); slot < len(r.slots) {
		r.slots[slot]++
	}
	r.MaxExcess = max(r.MaxExcess, q.excess)
	if q.wrong {
		r.count(now, &r.WronglyAdmitted, seriesWronglyAdmitted)
	}
}

// readWorld copies the counts of the world to the result.
func (r *Result) readWorld(w *world) {
	r.now, r.Events, r.BytesSent, r.logs, r.Nodes = w.loop.Now(), w.loop.Events(), w.network.bytes, w.logs(), len(w.nodes)
	if w.between != nil {
		r.BytesBetweenRegions = w.between.bytes
		r.BytesSent += w.between.bytes
	}
	if r.now > 0 {
		for _, s := range w.redis {
			busy := s.busy - max(0, s.busyUntil-r.now) // without calls that still wait
			r.RedisLoad = max(r.RedisLoad, float64(busy)/float64(r.now))
		}
	}
}

// join adds the result of another group of clients.
func (r *Result) join(o *Result) {
	for _, n := range [][2]*int64{
		{&r.Requests, &o.Requests},
		{&r.Retries, &o.Retries},
		{&r.Admitted, &o.Admitted},
		{&r.Denied, &o.Denied},
		{&r.Degraded, &o.Degraded},
		{&r.Unserved, &o.Unserved},
		{&r.WronglyAdmitted, &o.WronglyAdmitted},
		{&r.WronglyDenied, &o.WronglyDenied},
		{&r.RedisCalls, &o.RedisCalls},
		{&r.BytesSent, &o.BytesSent},
		{&r.Events, &o.Events},
		{&r.BytesBetweenRegions, &o.BytesBetweenRegions},
	} {
		*n[0] += *n[1]
	}
	r.MaxExcess, r.RedisLoad, r.now = max(r.MaxExcess, o.MaxExcess), max(r.RedisLoad, o.RedisLoad), min(r.now, o.now)
	for i := range seriesRedis + 1 {
		addAll(*r.Series.list(i), *o.Series.list(i))
	}
	addAll(r.slots, o.slots)
	r.latency.join(&o.latency)
}

func addAll(to, from []int64) {
	for i, n := range from {
		to[i] += n
	}
}

// setFigures computes the values that need the counts of the whole run. missing reports whether a group of clients was
// not simulated. If so, the result is partial.
func (r *Result) setFigures(missing bool) {
	r.Simulated, r.Partial = r.now.Seconds(), missing || r.now < r.duration
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	h := &r.latency
	r.Latency = Latency{
		Mean: micros(h.mean()), P50: micros(h.quantile(0.5)), P99: micros(h.quantile(0.99)), P999: micros(h.quantile(0.999)),
		Max: micros(h.most),
	}
	r.Burstiness = variation(r.slots[:min(int(r.now/burstStep), len(r.slots))])
	r.Latency.Mean, r.RedisLoad, r.Burstiness = round(r.Latency.Mean), round(r.RedisLoad), round(r.Burstiness)
}

// round keeps six digits after the decimal point. So results are the same on machines that round differently.
func round(x float64) float64 { return math.Round(x*1e6) / 1e6 }

// variation returns the standard deviation of a list divided by its mean, or 0 if all its numbers are 0.
func variation(list []int64) float64 {
	if len(list) == 0 || slices.Max(list) == 0 {
		return 0
	}
	sum, squares := 0.0, 0.0
	for _, n := range list {
		sum += float64(n)
	}
	mean := sum / float64(len(list))
	for _, n := range list {
		squares += float64((float64(n) - mean) * (float64(n) - mean)) // rounded, so that it is the same on every machine
	}
	return math.Sqrt(squares/float64(len(list))) / mean
}

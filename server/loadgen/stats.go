package loadgen

import (
	"math"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/headgate/headgate/server/loadgen/target"
)

// The range and precision of the histograms, which count nanoseconds.
const (
	longestLatency    = 10 * time.Minute
	significantDigits = 3
)

// shards is the number of parts of the statistics. There are several, so that senders rarely wait for each other.
const shards = 8

// An answer is the outcome of one request.
type answer struct {
	outcome target.Outcome
	err     error
	// interrupted is set if the request was in flight when the run was interrupted.
	interrupted bool

	at      time.Duration // time of the response, counted from the start of the run
	latency time.Duration // time from when the request was due
	service time.Duration // time from when the request was sent
}

// stats are the statistics of a run.
type stats struct {
	parts [shards]part

	mu           sync.Mutex
	start, ended time.Time
	unsent       int64
	unsentWaits  *hdrhistogram.Histogram
}

// counts are the numbers of requests by outcome.
type counts struct{ admitted, denied, degraded, errors, interrupted int64 }

// A part has the statistics of some of the senders.
type part struct {
	mu        sync.Mutex
	counts    counts
	firstErr  error
	latency   *hdrhistogram.Histogram
	service   *hdrhistogram.Histogram
	perSecond []int64
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(longestLatency), significantDigits)
}

func newStats(duration time.Duration) *stats {
	s := &stats{unsentWaits: newHistogram()}
	for i := range s.parts {
		s.parts[i] = part{
			latency: newHistogram(), service: newHistogram(),
			perSecond: make([]int64, int(math.Ceil(duration.Seconds()))+1),
		}
	}
	return s
}

func (s *stats) begin(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start = at
}

func (s *stats) end(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = at
}

// elapsed returns the duration of the run so far.
func (s *stats) elapsed() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.start.IsZero():
		return 0
	case s.ended.IsZero():
		return time.Since(s.start)
	}
	return s.ended.Sub(s.start)
}

// record adds a time to a histogram. Times beyond the range of the histogram count as longestLatency.
func record(h *hdrhistogram.Histogram, d time.Duration) { recordN(h, d, 1) }

// recordN adds n equal times to a histogram.
func recordN(h *hdrhistogram.Histogram, d time.Duration, n int64) {
	_ = h.RecordValues(min(max(int64(d), 1), int64(longestLatency)), n) // cannot fail, because the value is in range
}

func (s *stats) add(sender int, a answer) {
	p := &s.parts[sender%shards]
	p.mu.Lock()
	defer p.mu.Unlock()
	record(p.latency, a.latency)
	record(p.service, a.service)
	switch {
	case a.interrupted:
		p.counts.interrupted++
		return
	case a.err != nil:
		p.counts.errors++
		if p.firstErr == nil {
			p.firstErr = a.err
		}
		return
	case a.outcome.Allowed:
		p.counts.admitted++
	default:
		p.counts.denied++
	}
	if a.outcome.Degraded {
		p.counts.degraded++
	}
	p.perSecond[min(int(a.at/time.Second), len(p.perSecond)-1)]++
}

// addUnsent counts n requests that have waited for the same time.
func (s *stats) addUnsent(n int64, waited time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsent += n
	recordN(s.unsentWaits, waited, n)
}

// merged has the sums of all parts.
type merged struct {
	counts
	err              error
	unsent           int64
	latency, service *hdrhistogram.Histogram
	perSecond        []int64
}

func (s *stats) merge() merged {
	m := merged{latency: newHistogram(), service: newHistogram()}
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.Lock()
		m.admitted += p.counts.admitted
		m.denied += p.counts.denied
		m.degraded += p.counts.degraded
		m.errors += p.counts.errors
		m.interrupted += p.counts.interrupted
		if m.err == nil {
			m.err = p.firstErr
		}
		m.latency.Merge(p.latency)
		m.service.Merge(p.service)
		if m.perSecond == nil {
			m.perSecond = make([]int64, len(p.perSecond))
		}
		for second, n := range p.perSecond {
			m.perSecond[second] += n
		}
		p.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.unsent = s.unsent
	m.latency.Merge(s.unsentWaits)
	return m
}

package site

import (
	"slices"
	"time"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/stalls"
)

// A PaceOrder describes a load with a constant rate. The addresses take turns in short windows, so that longer
// disturbances of the machine affect all of them.
type PaceOrder struct {
	Addresses   []string
	Connections int           // to each
	Rate        float64       // requests a second
	Clients     int           // by how many they come in turn; 0 for loadClients
	Windows     int           // how many each gets
	Warming     time.Duration // in which answers are not recorded yet, in every window
	Length      time.Duration // after that
	Patience    time.Duration // how long the last answer may take
	Cores       []int         // on which stalls are watched for
	// Floods has a rate per address, in requests per second. One more client sends requests at that rate on its own
	// connections, and its requests may be denied. If Floods is nil, there is no such client.
	Floods []float64
	// Groups are the process groups of the servers, whose CPU time is measured; 0 for none.
	Groups []int
	// Spins lets the load poll for responses without sleeping, so that it needs no time to wake up. It needs a core of its
	// own.
	Spins bool
	// Into is the file to which the result is written, in JSON.
	Into string
}

// A paceDone reports that the result has been written.
type paceDone struct{ Paced string }

// A paceResult is the result of a PaceOrder.
type paceResult struct {
	Windows [][]harness.Pacing // of each address
	// Watched reports whether stalls were watched for. Stalls is their number, and Stalled their total duration.
	Watched bool
	Stalls  int
	Stalled time.Duration
}

// A timed is a request that has its response: the times at which the request was due and the response arrived, since
// the start.
type timed struct{ due, done time.Duration }

// stallEffectEnd returns the time until which a stall has an effect. After a stall, the server must also serve the
// requests that were due during it, which at half load takes as long as the stall. To be safe, the effect is assumed to
// last twice as long.
func stallEffectEnd(s stalls.Span) time.Duration { return s.To + 2*(s.To-s.From) }

// touched reports whether a stall touched a request. The stalls are in order of their ends.
func (t timed) touched(all []stalls.Span) bool {
	for _, s := range slices.Backward(all) {
		if stallEffectEnd(s) < t.due && s.To+longestFelt < t.due {
			return false
		}
		if s.From <= t.done && t.due <= stallEffectEnd(s) {
			return true
		}
	}
	return false
}

// longestFelt bounds the search in touched, which stops at a stall that ended longer ago than this and has no effect
// any more.
const longestFelt = 10 * time.Second

// calm returns the results of the requests that no stall has touched.
func calm(list []timed, all []stalls.Span) harness.CalmPacing {
	var took harness.Histogram
	for _, t := range list {
		if !t.touched(all) {
			took.Record(int64(t.done - t.due))
		}
	}
	return harness.CalmPacing{
		Requests: took.Total, P50: took.Quantile(0.5), P99: took.Quantile(0.99),
		P999: took.Quantile(0.999),
	}
}

// MeasuredPriority is the real-time priority of measured processes: above all others, and below the processes that
// watch for stalls.
const MeasuredPriority = stalls.Priority - 1

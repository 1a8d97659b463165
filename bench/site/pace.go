package site

import (
	"slices"
	"time"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/stalls"
)

// A PaceOrder says how a load of constant rate is to be. Those who are asked take turns, in short windows: what
// disturbs the machine for longer than that disturbs all of them.
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
	// Floods is, for each address, how many requests a second one more client sends besides, on connections of its own,
	// and does not mind being refused. None if it is nil.
	Floods []float64
	// Spins has the load look for answers without ever sleeping, so that nobody has to wake it: its core is its own.
	Spins bool
	// Into is the file that the result is written to, in JSON.
	Into string
}

// A paceDone says that it is there.
type paceDone struct{ Paced string }

// A paceResult is what came of it.
type paceResult struct {
	Windows [][]harness.Pacing // of each address
	// Watched tells that stalls were watched for, Stalls how many there were, and Stalled how long they were together.
	Watched bool
	Stalls  int
	Stalled time.Duration
}

// A timed is a request that was answered: when it was due, and when the answer had come, both from the start.
type timed struct{ due, done time.Duration }

// stallEffectEnd is until when a stall is felt: the requests that were due in it have to be answered besides those that
// come after it, which at half load takes as long again. It is taken for twice as long.
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

// longestFelt bounds how long stalls are looked for that are over: those that are felt for longer ended less long ago.
const longestFelt = 10 * time.Second

// calm returns what the requests say that no stall has touched.
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

// MeasuredPriority is that of what is measured, of real time: before all others, and after those who watch for stalls.
const MeasuredPriority = stalls.Priority - 1

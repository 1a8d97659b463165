package main

import (
	"slices"
	"time"

	"github.com/headgate/headgate/internal/stalls"
)

// A paceOrder says how a load of constant rate is to be. Those who are asked take turns, in short windows: what disturbs the
// machine for longer than that disturbs all of them.
type paceOrder struct {
	Addresses   []string
	Connections int           // to each
	Rate        float64       // requests a second
	Clients     int           // by how many they come in turn; 0 for loadClients
	Windows     int           // how many each gets
	Warming     time.Duration // in which answers are not recorded yet, in every window
	Length      time.Duration // after that
	Patience    time.Duration // how long the last answer may take
	Cores       []int         // on which stalls are watched for
	// Floods is, for each address, how many requests a second one more client sends besides, on connections of its own, and does
	// not mind being refused. None if it is nil.
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
	Windows [][]pacing // of each address
	// Watched tells that stalls were watched for, Stalls how many there were, and Stalled how long they were together.
	Watched bool
	Stalls  int
	Stalled time.Duration
}

// A pacing is a window. Times are in nanoseconds, from when a request was due to when its answer had come.
type pacing struct {
	Requests            int64
	P50, P99, P999, Max int64
	// Late is how much later requests were sent than they could be, p99: what the load itself adds. A request could be sent
	// when it was due and a connection was free.
	Late int64
	// Flooded is how many requests the one who floods has sent meanwhile, and Refused how many of them were.
	Flooded, Refused int64
	// Calm is of the requests that no stall has touched.
	Calm calmPacing
}

type calmPacing struct{ Requests, P50, P99, P999 int64 }

// A timed is a request that was answered: when it was due, and when the answer had come, both from the start.
type timed struct{ due, done time.Duration }

// felt is until when a stall is felt: the requests that were due in it have to be answered besides those that come after it, which
// at half load takes as long again. It is taken for twice as long.
func felt(s stalls.Span) time.Duration { return s.To + 2*(s.To-s.From) }

// touched reports whether a stall touched a request. The stalls are in order of their ends.
func (t timed) touched(all []stalls.Span) bool {
	for _, s := range slices.Backward(all) {
		if felt(s) < t.due && s.To+longestFelt < t.due {
			return false
		}
		if s.From <= t.done && t.due <= felt(s) {
			return true
		}
	}
	return false
}

// longestFelt bounds how long stalls are looked for that are over: those that are felt for longer ended less long ago.
const longestFelt = 10 * time.Second

// calm returns what the requests say that no stall has touched.
func calm(list []timed, all []stalls.Span) calmPacing {
	var took histogram
	for _, t := range list {
		if !t.touched(all) {
			took.record(int64(t.done - t.due))
		}
	}
	return calmPacing{Requests: took.total, P50: took.quantile(0.5), P99: took.quantile(0.99), P999: took.quantile(0.999)}
}

// measuredPriority is that of what is measured, of real time: before all others, and after those who watch for stalls.
const measuredPriority = stalls.Priority - 1

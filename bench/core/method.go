package core

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
)

// coreMethod describes how limiters in one process are compared.
func coreMethod(b *strings.Builder, r *harness.Results) {
	s := r.Sizes
	fmt.Fprintf(b, `- Every contender is in a process of its own, so that each pays for its own garbage and nobody for another's. All are
  filled first and stay alive; they take turns, %[1]d rounds after one that only warms, in a new random order every round,
  each after a collection of its garbage. Those that wait sleep. Tables show medians over the rounds and the quartiles.
- One measurement is %[2]s decisions, from a sequence of %[3]s picks made beforehand and the same for all.
  ns/decision is wall time divided by the decisions of all goroutines together.
- The limit is %[4]s, all of which may come at once. One unit comes back in %[5]s, so during a run no key falls
  idle, no window ends and nothing is due to be forgotten. A hot key that is always admitted has %[6]s instead;
  go-limiter, which refills too little at that rate, has more tokens than the run can use.
- Keys are %[7]d bytes. Every request has its own copy of its key, which was read a moment ago, as in a server; a map has to
  compare it with the copy that it kept. Zipf is with s = %[8]g.
- The floor is a table of fixed size that neither grows nor forgets: one seeded hash, one probe, one clock, one
  compare-and-swap. It is the least that an exact limiter with a plain table in the heap can cost here; "one counter" is that
  without the table. Headgate asks the system for large pages, so "large pages" is the floor with those. Bars are held
  against the plain floor.
- Headgate is asked by its shortest way too, a yes or no; "full answer" is what remains, when to come back and a receipt. It may
  take 16 GiB, so that it forgets nothing; its default is 1 GiB.
- Peers are asked for a decision by their shortest way and run without extras: throttled without its LRU, httprate
  without a request and its headers, tollbooth by key. x/time/rate and juju/ratelimit know no keys and are kept in maps.
  uber/ratelimit makes callers wait and is measured where nobody has to.
`,
		s.Rounds, harness.Grouped(fmt.Sprint(s.Ops)), harness.Grouped(fmt.Sprint(s.Picks)),
		limiters.Describe(limiters.Quotas["steady"]), limiters.Quotas["steady"].Interval(), limiters.Describe(
			limiters.Quotas["open"]), harness.KeyBytes, harness.ZipfExponent)
}

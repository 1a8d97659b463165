package redis

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
)

// redisMethod describes how limiters that count in Redis are compared.
func redisMethod(b *strings.Builder, r *harness.Results) {
	s := r.Sizes
	fmt.Fprintf(b, `- All share one server on this machine. Each contender is in a process of its own; they take turns, %d rounds after one
  that only warms, in a new random order every round. Tables show medians over the rounds and the quartiles.
- One measurement is %s decisions, from a sequence made beforehand and the same for all. ns/decision is wall time divided by the
  decisions of all goroutines together. The limit is %s.
- The floor is the very script that headgate sends, by the same client library, with nothing before or after. The peer has the
  connections that its client makes by default.
- At half load requests come by chance, whether or not those before are done, to goroutines that wait for them, and are timed from
  there to the decision. Headgate has its guard before it, whose deadline is put off so that nothing is cut short. It and the
  floor get the same rate for %s each, by turns, %d rounds; p99 is of all requests of a round. The table shows medians over the
  rounds, and the longest of all. Redis has one core and who asks the other, with the load; they come before all else there,
  and who asks has %d MiB of ballast in its heap, as the program has. A process on each core, which comes before them, counts how
  often the machine stands still.
`,
		s.Rounds, harness.Grouped(fmt.Sprint(s.RedisOps)), limiters.Describe(
			limiters.Quotas["steady"]), s.HalfLength, s.HalfRounds, harness.BallastBytes>>20)
}

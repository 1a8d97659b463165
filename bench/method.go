package main

import (
	"fmt"
	"strings"
)

// coreMethod says how limiters in one process are compared.
func coreMethod(b *strings.Builder, r *results) {
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
		s.Rounds, grouped(fmt.Sprint(s.Ops)), grouped(fmt.Sprint(s.Picks)),
		describe(quotas["steady"]), quotas["steady"].interval(), describe(quotas["open"]), keyBytes, zipfExponent)
}

// redisMethod says how limiters that count in Redis are compared.
func redisMethod(b *strings.Builder, r *results) {
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
		s.Rounds, grouped(fmt.Sprint(s.RedisOps)), describe(quotas["steady"]), s.HalfLength, s.HalfRounds, ballastBytes>>20)
}

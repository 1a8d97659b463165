package memstore

// If several cores use one key at the same time, the cache line of its entry moves between the cores for each read and
// each swap, also for swaps that fail. Throughput is higher if one core makes several decisions before the line moves.
// So a caller whose swaps fail repeatedly pauses once, and then tries until it succeeds.
const (
	// hotSwaps is the number of failed swaps after which a decision pauses. It is not 1, because a single failure is often
	// a coincidence, and trying again then costs less than a pause.
	hotSwaps = 2
	// pauseLoops is the number of iterations of the pause. They take 5 to 10 µs, enough for about a hundred decisions of
	// other cores.
	pauseLoops = 1 << 14
)

// pauseForOthers spins for a few microseconds, because a sleep takes longer.
func pauseForOthers() {
	for range pauseLoops {
	}
}

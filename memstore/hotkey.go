package memstore

// If all cores use one key, the cache line of its entry moves between them: once to read, once to swap, and again if
// the swap fails. Throughput is higher if a core decides several times before the line moves. So a caller whose swaps
// fail repeatedly pauses for a while, and then tries until it succeeds.
const (
	// hotSwaps is how many failed swaps in one decision make a key hot. A first failure is often a coincidence, and trying
	// again costs less than a pause.
	hotSwaps = 2
	// pauseLoops is the number of iterations of the pause: 5 to 10 µs, in which others decide a hundred times.
	pauseLoops = 1 << 14
)

// pauseForOthers spins for a few microseconds, because a sleep takes longer.
func pauseForOthers() {
	for range pauseLoops {
	}
}

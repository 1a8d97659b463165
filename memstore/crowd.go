package memstore

// The entry of a key that all cores take from, all the time, is a cache line that they take from each other: once to read
// it, once more to swap, and again if the swap is lost. All are served sooner if each of them decides a number of times
// before the line moves on. So one who loses again and again gives way for a while, and then competes until it has won.
const (
	// crowded is how many lost swaps in one decision tell that a key is so hot. A first loss is often a coincidence, and
	// then to try again costs less than to wait.
	crowded = 2
	// yielding is for how many rounds of an empty loop to give way: 5 to 10 µs, in which the others decide a hundred times.
	yielding = 1 << 14
)

// giveWay lets others have a crowded key for a while. It does not sleep: that would take longer than what it waits for.
func giveWay() {
	for range yielding {
	}
}

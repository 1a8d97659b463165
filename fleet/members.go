package fleet

// Members knows which nodes there are: [Gossip] does, and a [Roll] that nodes keep in Redis.
type Members interface {
	// Live is how many nodes are heard of, this one included. At least 1.
	Live() int
	// Known is how many there are, those included that have fallen silent and not said that they leave.
	Known() int
}

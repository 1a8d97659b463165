package fleet

// Members counts the nodes of a fleet.
type Members interface {
	// Live is the number of nodes that have sent something recently, including this one. It is at least 1.
	Live() int
	// Known is the number of live nodes plus those that are silent and have not left.
	Known() int
}

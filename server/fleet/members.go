package fleet

// Members counts the nodes of a fleet.
type Members interface {
	// Live returns the number of nodes that have sent something recently, including this one. It is at least 1.
	Live() int
	// Known returns the number of live nodes, plus the nodes that are silent but have not left.
	Known() int
}

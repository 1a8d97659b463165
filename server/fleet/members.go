package fleet

// Members counts the nodes of a fleet.
type Members interface {
	// Live is the number of nodes that were heard from recently, including this one. At least 1.
	Live() int
	// Known is the number of live nodes and of those that went silent without leaving.
	Known() int
}

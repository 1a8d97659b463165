package fleet

// A Peer is one incarnation of another node. A node that restarts is a new incarnation, which has consumed nothing yet.
type Peer struct {
	Name        string
	Incarnation uint64
}

// MaxNameBytes is the maximum length of the name of a node, a region or a fleet.
const MaxNameBytes = 64

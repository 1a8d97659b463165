package ledger

import "time"

// A peerTotal is what a record knows of one peer.
type peerTotal struct {
	slot               int32         // of the peer in Ledger.peers
	gen                uint32        // generation of the slot
	start              time.Duration // Tally.Start of the total
	total              int64
	grewAt             int64         // when the total last grew, if it is recent, otherwise 0; see applySum
	sentAt             time.Duration // the peer's uptime when it sent the total
	emptyTime          int64         // the record's emptyTime at the latest update
	updatedAt          int64         // when the latest update was sent, as far as that is known
	emptyTimeWhenEqual int64         // the record's emptyTime when both levels were last equal

	above       levelGap
	comparisons int32 // number of comparisons of levels since above.startedAt
	impossible  bool  // the latest total was larger than possible
	older       bool  // the peer's record is older than what this node knows
	// windowsAgo is how many windows before the open one the latest total belongs to: -1 if its window has not started
	// here, and longAgo for two and more.
	windowsAgo int8
}

// longAgo is the highest value of peerTotal.windowsAgo.
const longAgo = 2

// pastWindow reports whether the latest total is of a window that has ended.
func (p *peerTotal) pastWindow() bool { return p.windowsAgo > 0 }

// nextWindow reports whether the latest total is of a window that has not started here.
func (p *peerTotal) nextWindow() bool { return p.windowsAgo < 0 }

// setWindow records to which window the latest total belongs.
func (p *peerTotal) setWindow(r *record, window int64) {
	switch {
	case !r.plan.HasWindows() || window == r.window.start:
		p.windowsAgo = 0
	case window > r.window.start:
		p.windowsAgo = -1
	case window >= r.window.start-r.plan.Period:
		p.windowsAgo = 1
	default:
		p.windowsAgo = longAgo
	}
}

// A levelGap is the range of the differences between a peer's level and ours in all updates since startedAt. The
// differences are positive if the peer's level is higher. See catchUp.
type levelGap struct {
	lowest, highest, startedAt int64
}

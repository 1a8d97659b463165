package ledger

import "time"

// A peerTotal is the part of a record about one peer.
type peerTotal struct {
	slot               int32         // index of the peer in Ledger.peers
	gen                uint32        // generation of the slot
	start              time.Duration // Tally.Start of the total
	total              int64
	grewAt             int64         // when the total last grew, if it is recent, otherwise 0; see applySum
	sentAt             time.Duration // the peer's uptime when it sent the total
	emptyTime          int64         // the record's emptyTime at the latest update
	updatedAt          int64         // when the latest update was sent, approximately
	emptyTimeWhenEqual int64         // the record's emptyTime when both levels were last equal

	above       levelGap
	comparisons int32 // number of comparisons of levels since above.startedAt
	impossible  bool  // the latest total was larger than possible
	older       bool  // the peer's record is older than this node's, so its level was adopted
	// windowsAgo says to which window the latest total belongs: 0 for the open window, 1 for the window before, longAgo
	// for earlier windows, and -1 for a window that has not started on this node.
	windowsAgo int8
}

// longAgo is the highest value of peerTotal.windowsAgo.
const longAgo = 2

// pastWindow reports whether the latest total is of a window that has ended.
func (p *peerTotal) pastWindow() bool { return p.windowsAgo > 0 }

// nextWindow reports whether the latest total is of a window that has not started on this node.
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

// A levelGap is the range of the differences between a peer's level and this node's level in all updates since
// startedAt. A difference is positive if the peer's level is higher. See catchUp.
type levelGap struct {
	lowest, highest, startedAt int64
}

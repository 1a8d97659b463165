package sim

import (
	"context"
	"log/slog"
	"time"

	"github.com/headgate/headgate/server/fleet/membership"
)

// A memberList is a node's access to the list of nodes in its region's Redis.
type memberList struct {
	redisClient
	starting bool // the node starts
}

var _ membership.List = (*memberList)(nil)

// Sizes, in bytes, of a call of members.lua and of its reply.
const beatCall, beatReply = 190, 16

// joinMembers adds a node to the list of nodes. The node gets its first response before it gets requests; here, this
// takes no time.
func (w *world) joinMembers(n *node) (*membership.Membership, error) {
	list := &memberList{redisClient{w, n, w.serversOf(n.region)}, true}
	m, err := membership.New(context.Background(), list, membership.Options{
		Name: n.host.Name, Clock: n.host, Logger: slog.New(slog.DiscardHandler),
	})
	list.starting = false
	return m, err
}

// Beat implements membership.List.
func (l *memberList) Beat(
	ctx context.Context, node string, live, known time.Duration,
) (nLive, nKnown int, listed bool, err error) {
	s := l.servers[slotOf("{hg:fleet:members}")*len(l.servers)/slots]
	beat := func(now time.Time) (time.Duration, int) {
		nLive, nKnown, listed = s.members.Beat(node, live, known, now)
		return l.world.serviceTime(exchangePercent), beatReply
	}
	if !l.starting {
		err = l.pipeline(ctx, s, 1, beatCall, beat)
		return nLive, nKnown, listed, err
	}
	if s.down > 0 || !l.world.reaches(l.node, s) {
		return 0, 0, false, errLost
	}
	beat(l.world.loop.Time().Add(s.ahead))
	return nLive, nKnown, listed, nil
}

// Leave implements membership.List. Simulated nodes crash instead of leaving.
func (l *memberList) Leave(context.Context, string, time.Duration, time.Duration) error { return nil }

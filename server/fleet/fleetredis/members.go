package fleetredis

import (
	"context"
	_ "embed"
	"time"

	"github.com/headgate/headgate/redisstore"
)

//go:embed members.lua
var membersLua string

// A MemberList is a membership.List in Redis. Create one with [NewMemberList].
type MemberList struct {
	store  *redisstore.Store
	key    string
	script *redisstore.Script
}

// NewMemberList returns the list of the fleet with the given name. An empty name means "fleet".
func NewMemberList(store *redisstore.Store, name string) (*MemberList, error) {
	prefix, err := keyPrefix(store.Prefix(), name)
	if err != nil {
		return nil, err
	}
	return &MemberList{store: store, key: prefix + ":members", script: store.NewScript(membersLua)}, nil
}

// maxMembers is the maximum number of nodes in the list.
const maxMembers = 4096

// Beat refreshes the entry of a node. See membership.List.
func (l *MemberList) Beat(
	ctx context.Context, node string, live, known time.Duration,
) (nLive, nKnown int, listed bool, err error) {
	counts, err := l.run(ctx, node, live, known, "0")
	if err != nil {
		return 0, 0, false, err
	}
	return int(counts[0]), int(counts[1]), counts[2] == 1, nil
}

// Leave removes a node from the list.
func (l *MemberList) Leave(ctx context.Context, node string, live, known time.Duration) error {
	_, err := l.run(ctx, node, live, known, "1")
	return err
}

func (l *MemberList) run(ctx context.Context, node string, live, known time.Duration, leave string) ([]int64, error) {
	reply := l.script.Run(ctx, redisstore.ScriptCall{
		Keys: []string{l.key},
		Args: []string{node, decimal(live.Milliseconds()), decimal(known.Milliseconds()), decimal(maxMembers), leave},
	})[0]
	if reply.Err != nil {
		return nil, reply.Err
	}
	counts, ok := integers(reply.Values)
	if !ok || len(counts) != 3 {
		return nil, l.store.MalformedReply(l.key)
	}
	return counts, nil
}

package redisstore

import (
	"context"
	_ "embed"
	"strconv"
	"time"

	"github.com/headgate/headgate"
)

//go:embed members.lua
var membersLua string

// A MemberList is a list of the nodes of a fleet: a list for fleet/membership. Store.MemberList returns one.
type MemberList struct {
	store  *Store
	key    string
	script *script
}

// MemberList returns the list of the nodes of a fleet of that name, "fleet" if it is empty.
func (s *Store) MemberList(name string) (*MemberList, error) {
	if name == "" {
		name = "fleet"
	}
	if err := checkFleetName(name); err != nil {
		return nil, err
	}
	return &MemberList{store: s, key: s.prefix + ":" + name + ":members", script: newScript(s.currentScripts().major, writes,
		membersLua)}, nil
}

// maxMembers is how many nodes are remembered.
const maxMembers = 4096

// Beat records that a node is there. It returns how many nodes were heard of within the time live, how many within the
// longer time known and did not leave, and whether the node was listed before.
func (r *MemberList) Beat(
	ctx context.Context, node string, live, known time.Duration,
) (nLive, nKnown int, listed bool, err error) {
	counts, err := r.run(ctx, node, live, known, "0")
	if err != nil {
		return 0, 0, false, err
	}
	return int(counts[0]), int(counts[1]), counts[2] == 1, nil
}

// Leave removes a node from the list.
func (r *MemberList) Leave(ctx context.Context, node string, live, known time.Duration) error {
	_, err := r.run(ctx, node, live, known, "1")
	return err
}

func (r *MemberList) run(ctx context.Context, node string, live, known time.Duration, leaves string) ([]int64, error) {
	s := r.store
	if ctx == nil {
		return nil, headgate.ErrNilContext
	}
	if s.closed.Load() {
		return nil, headgate.ErrClosed
	}
	keys := []string{r.key}
	args := []string{node, decimal(live.Milliseconds()), decimal(known.Milliseconds()), strconv.Itoa(maxMembers), leaves}
	result := s.client.Do(ctx, s.evalSHA(r.script, keys, args))
	if isUnknownScript(result.Error()) {
		result = s.client.Do(ctx, s.evalBody(r.script, keys, args))
	}
	counts, err := result.AsIntSlice()
	if err != nil {
		return nil, withKeys(s.explain(err, r.key), keys)
	}
	if len(counts) != 3 {
		return nil, s.explainReply(errMalformed, r.key)
	}
	return counts, nil
}

package redisstore

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// Grant takes units that the caller hands out itself. It takes at most want units, and at most 1/share of the remaining
// units. It takes at least c.Cost units, which must be at least 1, even if this exceeds want or the share. If fewer
// than c.Cost units remain, Grant takes nothing and returns the denial that Take would return. Otherwise it returns the
// decision that Take would return for the granted units; their number is in the receipt. Granted units count as taken
// at once. The caller gives unused units back with Give and the receipt, in parts or all together.
//
// Grant returns headgate.ErrUnsupported for a split key, and for algorithms that must know when or by whom a unit is
// used: leaky-bucket, sliding-log, sliding-buckets and concurrency.
func (s *Store) Grant(ctx context.Context, c headgate.Check, want, share int64) (headgate.Decision, error) {
	keys, err := s.beginCheck(ctx, &c)
	if err == nil {
		err = headgate.ValidateUnits(c.Cost)
	}
	if err != nil {
		return headgate.Decision{}, err
	}
	if !algorithm.Grantable(c.Limit.Algorithm) || partsOf(&c) > 1 {
		return headgate.Decision{}, headgate.ErrUnsupported
	}
	r, err := s.newRequest(keys, &c, unsplit)
	if err != nil {
		return headgate.Decision{}, err
	}
	if r.neverPasses() { // grant.lua expects a cost up to the capacity; take returns the denial
		d, _, err := s.take(ctx, &r)
		return d, err
	}
	d, err := s.grant(ctx, &r, max(r.cost, min(want, headgate.MaxCount)), max(1, min(share, headgate.MaxCount)))
	if err == nil && d.Allowed && r.secondKey != "" {
		d, err = s.grantSecond(ctx, &r, d)
	}
	return d, s.explainReply(err, r.key)
}

// opGrant is an operation of grant.lua.
const opGrant = "grant"

// grant grants units of the key of a request. It repeats the call if the key has the state of another limit. Like
// request.decide, it repeats the step in Go to compute the decision.
func (s *Store) grant(ctx context.Context, r *request, want, share int64) (headgate.Decision, error) {
	var (
		now    int64
		out    = outcomeOtherLimit
		packed string // the state before the grant
		units  int64
	)
	for try := 0; out == outcomeOtherLimit; try++ {
		if try == maxStepCalls {
			return headgate.Decision{}, s.changingLimits(r.key)
		}
		reply, err := s.runGathered(ctx, s.currentScripts().grant[r.plan.algorithm], opGrant, r.key, r.args(want, share))
		if err != nil {
			return headgate.Decision{}, err
		}
		var rest string
		if now, out, rest, err = parseReply(reply); err != nil {
			return headgate.Decision{}, err
		}
		if packed, units, err = parseGrant(rest); err != nil {
			return headgate.Decision{}, err
		}
		if out == outcomeOtherLimit && !r.convertFrom(now, packed) {
			return headgate.Decision{}, s.foreignKey(r.key)
		}
	}
	var array [8]int64
	state, ok := r.plan.DecodeState(packed, array[:0])
	if !ok {
		return headgate.Decision{}, errMalformed
	}
	_, d, err := r.plan.Grant(state, now-r.offset, r.cost, want, share)
	if err != nil {
		return headgate.Decision{}, err
	}
	if d.Allowed != (out == outcomeAllowed) || d.Allowed && d.Receipt.Units != units {
		return headgate.Decision{}, errMalformed
	}
	return d, nil
}

// parseGrant splits the part of a reply that parseReply has not parsed into the state before the grant and the number
// of granted units.
func parseGrant(rest string) (state string, units int64, err error) {
	at := len(rest) - numberSize
	if at < 0 {
		return "", 0, errMalformed
	}
	for _, b := range []byte(rest[at:]) {
		units = units<<8 | int64(b)
	}
	return rest[:at], units, nil
}

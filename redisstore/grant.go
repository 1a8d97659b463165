package redisstore

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// Grant takes units that the caller hands out itself. It takes at least c.Cost units or none, at most want, and at
// most 1/share of the remaining units. c.Cost is at least 1, and is granted even if it exceeds want or that share.
// Granted units count as taken at once. Grant returns the decision of a Take of the granted units, whose number is in
// the receipt, or the denial of a Take of c.Cost.
//
// The caller returns unused units with Give and the receipt, in parts or at once.
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
	if r.neverPasses() { // take returns the denial
		d, _, err := s.take(ctx, &r)
		return d, err
	}
	d, err := s.grant(ctx, &r, max(r.cost, min(want, headgate.MaxCount)), max(1, min(share, headgate.MaxCount)))
	if err == nil && d.Allowed && r.secondKey != "" {
		d, err = s.grantSecond(ctx, &r, d)
	}
	return d, s.explainReply(err, r.key)
}

const opGrant = "grant"

func (s *Store) grant(ctx context.Context, r *request, want, share int64) (headgate.Decision, error) {
	var (
		now    int64
		out    = outcomeOtherLimit
		packed string
		units  int64
	)
	for try := 0; out == outcomeOtherLimit; try++ {
		if try == carryTries {
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
		if out == outcomeOtherLimit && !r.carry(now, packed) {
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

// parseGrant splits the rest of a reply to a grant, as returned by parseReply, into the state before the grant and the
// granted units.
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

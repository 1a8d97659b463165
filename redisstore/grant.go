package redisstore

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// Grant takes units that the caller will hand out by himself, in one step: at least c.Cost of them, which is at least 1, or
// none; at most want; and no more than the part 1/share of what remains, unless c.Cost is more than that. They count as
// taken from now on, for everybody who asks for the key by whatever method. The decision is that of a Take of the units
// that were granted, which its receipt tells; or of c.Cost if there are not that many.
//
// What is not used in time goes back with Give and that receipt, in parts or at once.
//
// It returns headgate.ErrUnsupported for a key that is split, and for algorithms that must know when a unit is used, or by
// whom: leaky-bucket, sliding-log, sliding-buckets and concurrency.
func (s *Store) Grant(ctx context.Context, c headgate.Check, want, share int64) (headgate.Decision, error) {
	keys, err := s.admit(ctx)
	if err == nil {
		err = validate(&c)
	}
	if err == nil {
		err = headgate.ValidateUnits(c.Cost)
	}
	if err != nil {
		return headgate.Decision{}, err
	}
	if !algorithm.Grantable(c.Limit.Algorithm) || partsOf(&c) > 1 {
		return headgate.Decision{}, headgate.ErrUnsupported
	}
	a, err := s.ask(keys, &c, unsplit)
	if err != nil {
		return headgate.Decision{}, err
	}
	if a.never() {
		d, _, err := s.take(ctx, &a) // to say so
		return d, err
	}
	d, err := s.grant(ctx, &a, max(a.n, min(want, headgate.MaxCount)), max(1, min(share, headgate.MaxCount)))
	return d, s.named(err, a.key)
}

const opGrant = "grant"

func (s *Store) grant(ctx context.Context, a *ask, want, share int64) (headgate.Decision, error) {
	var (
		now   int64
		out   = changed
		found string
		units int64
	)
	for try := 0; out == changed; try++ {
		if try == carryTries {
			return headgate.Decision{}, s.changing(a.key)
		}
		args := s.timed(append(make([]string, 0, 3), opGrant, a.numbers(want, share)))
		answer, err := s.run(ctx, s.program().grant[a.plan.algorithm], []string{a.key}, args)
		if err != nil {
			return headgate.Decision{}, err
		}
		var rest string
		if now, out, rest, err = readAnswer(answer); err != nil {
			return headgate.Decision{}, err
		}
		if found, units, err = readGranted(rest); err != nil {
			return headgate.Decision{}, err
		}
		if out == changed && !a.carry(now, found) {
			return headgate.Decision{}, s.foreign(a.key)
		}
	}
	var room [8]int64
	state, ok := a.plan.Found(found, room[:0])
	if !ok {
		return headgate.Decision{}, errAnswer
	}
	_, d, err := a.plan.Grant(state, now-a.offset, a.n, want, share)
	if err != nil {
		return headgate.Decision{}, err
	}
	if d.Allowed != (out == allowed) || d.Allowed && d.Receipt.Units != units {
		return headgate.Decision{}, errAnswer
	}
	return d, nil
}

// readGranted splits what stands behind the head of an answer to a grant into the state that was found and the units.
func readGranted(rest string) (found string, units int64, err error) {
	at := len(rest) - numberSize
	if at < 0 {
		return "", 0, errAnswer
	}
	for _, b := range []byte(rest[at:]) {
		units = units<<8 | int64(b)
	}
	return rest[:at], units, nil
}

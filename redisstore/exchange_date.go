package redisstore

import (
	"context"
	_ "embed"
	"time"

	"github.com/headgate/headgate"
)

//go:embed date.lua
var dateLua string

// newDateScript returns one that a primary is asked for, though it writes nothing: a replica has a date of its own.
func newDateScript(major int) *script {
	sc := newScript(major, noWrite, dateLua)
	sc.readOnly = false
	return sc
}

// Date returns the time of one server, the same for all nodes of a fleet.
func (b *Board) Date(ctx context.Context) (time.Time, error) {
	s := b.store
	if ctx == nil {
		return time.Time{}, headgate.ErrNilContext
	}
	if s.closed.Load() {
		return time.Time{}, headgate.ErrClosed
	}
	keys := b.errand(0).keys
	result := s.client.Do(ctx, s.evalSHA(b.date, keys, nil))
	if isUnknownScript(result.Error()) {
		result = s.client.Do(ctx, s.evalBody(b.date, keys, nil))
	}
	parts, err := result.AsIntSlice()
	if err != nil {
		return time.Time{}, withKeys(s.explain(err, keys[0]), keys)
	}
	if len(parts) != 2 {
		return time.Time{}, s.explainReply(errMalformed, keys[0])
	}
	return time.Unix(parts[0], parts[1]*int64(time.Microsecond)), nil
}

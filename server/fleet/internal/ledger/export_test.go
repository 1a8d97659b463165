package ledger

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/quota"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// KeyOf returns the hash of a check's key.
func (l *Ledger) KeyOf(c headgate.Check) (tally.Key, error) {
	p, err := l.plans.Get(&c.Limit, quota.NewPlan)
	if err != nil {
		return tally.Key{}, err
	}
	return l.hash(c.Key, p.Kind), nil
}

package ledger

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// KeyOf returns the hash of a check's key.
func (l *Ledger) KeyOf(c headgate.Check) (Key, error) {
	p, err := l.plans.Get(&c.Limit, quota.NewPlan)
	if err != nil {
		return Key{}, err
	}
	return l.hash(c.Key, p.Kind), nil
}

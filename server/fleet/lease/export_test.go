package lease

import (
	"cmp"
	"slices"
	"time"

	"github.com/headgate/headgate"
)

// Passages is what passed, for tests outside of the package.
type Passages struct{ passages }

// Add notes units that passed between two times.
func (p *Passages) Add(from, to time.Duration, units int64) { p.add(from, to, units) }

// First returns when the first was asked for.
func (p *Passages) First() time.Duration {
	return slices.MinFunc(p.list, func(a, b passage) int { return cmp.Compare(a.from, b.from) }).from
}

// Over returns what is wrong with what passed.
func (p *Passages) Over(l headgate.Limit, ttl time.Duration, base time.Time) error {
	return p.over(l, ttl, base)
}

package fleet

import (
	"time"

	"github.com/headgate/headgate"
)

// Passages is what passed, for tests outside of the package.
type Passages struct{ passages }

// Add notes units that passed between two times.
func (p *Passages) Add(from, to time.Duration, units int64) { p.add(from, to, units) }

// Over returns what is wrong with what passed.
func (p *Passages) Over(l headgate.Limit, ttl time.Duration, base time.Time) error {
	return p.over(l, ttl, base)
}

package ledger

import (
	"github.com/headgate/headgate/server/fleet/internal/lookup"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// These are the names that package region uses.
type (
	Key    = tally.Key
	Tally  = tally.Tally
	Lookup = lookup.Lookup
)

const (
	ReasonFell   = tally.Fell
	ReasonLeaped = tally.Leaped
)

// GroupOf is tally.GroupOf.
func GroupOf(k *Key) int { return tally.GroupOf(k) }

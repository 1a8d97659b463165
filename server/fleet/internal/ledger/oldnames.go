package ledger

import (
	"github.com/headgate/headgate/server/fleet/internal/lookup"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// Key is [tally.Key].
type Key = tally.Key

// Tally is [tally.Tally].
type Tally = tally.Tally

// Lookup is [lookup.Lookup].
type Lookup = lookup.Lookup

// These are reasons to refuse a tally.
const (
	ReasonFell   = tally.Fell
	ReasonLeaped = tally.Leaped
)

// GroupOf is [tally.GroupOf].
func GroupOf(k *Key) int { return tally.GroupOf(k) }

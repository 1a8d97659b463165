package headgate

import "strconv"

// MaxKeyBytes is the longest key a Check may have.
const MaxKeyBytes = 4096

// MaxChecks is how many checks one TakeAll may decide.
const MaxChecks = 128

// A Check asks for Cost units of Limit on behalf of Key.
type Check struct {
	// Key names one counter: whose it is, and which of the limits that apply to him. Two limits of one client need two
	// keys ("alice/second", "alice/hour"), because what was consumed is remembered by key alone. Not empty, at most
	// MaxKeyBytes long.
	Key string
	// Limit is how much may pass.
	Limit Limit
	// Cost is how many units to take, 0 to only look. A cost above the limit's capacity is denied with RetryAfter Never.
	Cost int64
}

// Validate reports, as an *InputError, what is wrong with the check.
func (c Check) Validate() error {
	if err := ValidateKey(c.Key); err != nil {
		return err
	}
	if c.Cost < 0 {
		return badCheck("Cost", strconv.FormatInt(c.Cost, 10), "0 (to look) or more; Give returns units")
	}
	return c.Limit.Validate()
}

// ValidateKey reports, as an *InputError, a key that no Limiter takes.
func ValidateKey(key string) error {
	if key == "" {
		return badCheck("Key", `""`, "a name for whose limit this is")
	}
	if len(key) > MaxKeyBytes {
		return badCheck("Key", quote(key), "at most "+strconv.Itoa(MaxKeyBytes)+" bytes; hash a longer one")
	}
	return nil
}

// ValidateUnits reports, as an *InputError, a number of units that cannot be charged or given back.
func ValidateUnits(n int64) error {
	if n < 1 || n > MaxCount {
		return badCheck("Cost", strconv.FormatInt(n, 10), "1 to "+strconv.FormatInt(MaxCount, 10)+" units")
	}
	return nil
}

// ValidateRefund reports, as an *InputError, a refund of n units that the receipt does not cover.
func ValidateRefund(n int64, r Receipt) error {
	if err := ValidateUnits(n); err != nil {
		return err
	}
	if n > r.Units {
		return badCheck("Cost", strconv.FormatInt(n, 10),
			"at most the "+strconv.FormatInt(r.Units, 10)+" units that the receipt says were taken")
	}
	return nil
}

// ValidateAll reports, as an *InputError, what checks can only have wrong together: too many of them, or a key twice.
func ValidateAll(checks []Check) error {
	if len(checks) > MaxChecks {
		return badCheck("checks", strconv.Itoa(len(checks)), "at most "+strconv.Itoa(MaxChecks)+" at once")
	}
	for i := range checks {
		for j := range i {
			if checks[i].Key == checks[j].Key {
				return badCheck("Key", quote(checks[i].Key), "each key once: every limit of a client has a key of its own")
			}
		}
	}
	return nil
}

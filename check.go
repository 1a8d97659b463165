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

	// The rest is for limiters that ask servers; one in memory need not read it.

	// Owner names whose keys belong together: a client with several limits. The keys of one owner are on one server and
	// are decided in one step. Empty stands for an owner who has but this key. The same key always comes with the same
	// owner. At most MaxKeyBytes long.
	Owner string
	// Split is in how many parts a key is counted that is too hot for one server; 0 and 1 do not split it. At most MaxSplit.
	Split int
	// Partition is how much of the limit this node has while it does not hear of all nodes that share it. It is for
	// limiters whose nodes tell each other what they took.
	Partition Partition
	// OnFailure says who decides when the server cannot be asked.
	OnFailure Policy
	// Safe is the limit that Local goes by, nil for a share of Limit.
	Safe *Limit
}

// MaxSplit is the most parts a key may be counted in.
const MaxSplit = 64

// A Policy says who decides a check whose server cannot be asked. What is decided so is Degraded.
type Policy uint8

// The policies.
const (
	Open   Policy = iota // let pass
	Closed               // deny
	Local                // count in this process
)

var policyNames = [...]string{Open: "open", Closed: "closed", Local: "local"}

func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return "policy " + strconv.Itoa(int(p))
}

// A Partition says how much of a limit the nodes have that hear of each other, while they do not hear of all.
type Partition uint8

// What they have.
const (
	PartitionFull  Partition = iota // all of it: none of it is wasted, and each side of a network that is cut lets it pass
	PartitionShare                  // as much as they are of all nodes: all sides together stay within it
)

var partitionNames = [...]string{PartitionFull: "full", PartitionShare: "share"}

func (p Partition) String() string {
	if int(p) < len(partitionNames) {
		return partitionNames[p]
	}
	return "partition " + strconv.Itoa(int(p))
}

// Validate reports, as an *InputError, what is wrong with the check.
func (c Check) Validate() error {
	if err := ValidateKey(c.Key); err != nil {
		return err
	}
	if c.Cost < 0 {
		return badCheck("Cost", strconv.FormatInt(c.Cost, 10), "0 (to look) or more; Give returns units")
	}
	if len(c.Owner) > MaxKeyBytes {
		return badCheck("Owner", quote(c.Owner), "at most "+strconv.Itoa(MaxKeyBytes)+" bytes; hash a longer one")
	}
	if c.Split < 0 || c.Split > MaxSplit {
		return badCheck("Split", strconv.Itoa(c.Split), "0 (not split) to "+strconv.Itoa(MaxSplit))
	}
	if int(c.Partition) >= len(partitionNames) {
		return badCheck("Partition", c.Partition.String(), "full or share")
	}
	if int(c.OnFailure) >= len(policyNames) {
		return badCheck("OnFailure", c.OnFailure.String(), "open, closed or local")
	}
	if c.Safe != nil {
		if err := c.Safe.Validate(); err != nil {
			return err
		}
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

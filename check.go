package headgate

import "strconv"

// The largest values in a check.
const (
	// MaxKeyBytes is the maximum length of the key of a Check.
	MaxKeyBytes = 4096
	// MaxChecks is the maximum number of checks in one TakeAll.
	MaxChecks = 128
	// MaxSplit is the maximum number of parts of a split key.
	MaxSplit = 64
)

// A Check asks for Cost units of Limit on behalf of Key.
type Check struct {
	// Key identifies one counter. Two limits of one client need two keys ("alice/second", "alice/hour"), because
	// consumption is stored by key alone; [BindAll] appends a number to the key for this. A key has 1 to MaxKeyBytes
	// bytes.
	Key string
	// Limit says how many units of Key may pass.
	Limit Limit
	// Cost is the number of units to take, at least 1; only Peek accepts 0. A cost above the limit's capacity is denied
	// with RetryAfter Never.
	Cost int64

	// The other fields are for limiters that use servers or peers; an in-memory limiter may ignore them.

	// Owner groups the keys of one client. The keys of one owner are on one server, which decides them in one step. If
	// Owner is empty, the key is its own owner. The same key must always have the same owner. An owner has at most
	// MaxKeyBytes bytes.
	Owner string
	// Split is the number of parts into which the key's counter is split, for a key that is too busy for one server. It
	// is at most MaxSplit; 0 and 1 do not split the counter.
	Split int
	// Partition is the policy for network partitions: how much of the limit this node may use while other nodes that
	// share it are unreachable. It is for limiters whose nodes send each other updates.
	Partition Partition
	// OnFailure is the policy that decides while the server is unreachable.
	OnFailure Policy
	// Safe is the limit that the policy Local uses. If it is nil, the policy uses this node's share of Limit.
	Safe *Limit
}

// A Policy says how a check is decided while its server is unreachable. Decisions made by a policy are marked Degraded.
type Policy uint8

// The values of Policy.
const (
	Open   Policy = iota // allow
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

// A Partition says how much of a limit a group of connected nodes may use while other nodes are unreachable.
type Partition uint8

// The values of Partition.
const (
	PartitionFull  Partition = iota // all of it: each side of a split network admits the whole limit
	PartitionShare                  // a share in proportion to its nodes: all sides together stay within the limit
)

var partitionNames = [...]string{PartitionFull: "full", PartitionShare: "share"}

func (p Partition) String() string {
	if int(p) < len(partitionNames) {
		return partitionNames[p]
	}
	return "partition " + strconv.Itoa(int(p))
}

// Validate returns an *InputError if the check is invalid, or nil.
func (c Check) Validate() error {
	if c.Cost < 1 {
		if err := ValidateKey(c.Key); err != nil {
			return err
		}
		return badCheck("Cost", strconv.FormatInt(c.Cost, 10), "at least 1; Peek reads without taking, Give returns units")
	}
	return c.ValidatePeek()
}

// ValidatePeek is like Validate, but accepts a cost of 0, as Peek does.
func (c Check) ValidatePeek() error {
	if err := ValidateKey(c.Key); err != nil {
		return err
	}
	if c.Cost < 0 {
		return badCheck("Cost", strconv.FormatInt(c.Cost, 10), "0 or more")
	}
	if len(c.Owner) > MaxKeyBytes {
		return badCheck("Owner", quote(c.Owner), "at most "+strconv.Itoa(MaxKeyBytes)+" bytes; hash longer owners")
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

// ValidateKey returns an *InputError if the key is empty or too long, or nil.
func ValidateKey(key string) error {
	if key == "" {
		return badCheck("Key", `""`, "a key that identifies the client and the limit")
	}
	if len(key) > MaxKeyBytes {
		return badCheck("Key", quote(key), "at most "+strconv.Itoa(MaxKeyBytes)+" bytes; hash longer keys")
	}
	return nil
}

// ValidateUnits returns an *InputError for a number of units that cannot be charged or given back.
func ValidateUnits(n int64) error {
	if n < 1 || n > MaxCount {
		return badCheck("Cost", strconv.FormatInt(n, 10), "1 to "+strconv.FormatInt(MaxCount, 10)+" units")
	}
	return nil
}

// ValidateRefund returns an *InputError for a refund of n units that the receipt does not cover.
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

// ValidateCombination returns an *InputError if there are too many checks, or if two of them have the same key. Each
// check needs Validate as well.
func ValidateCombination(checks []Check) error {
	if len(checks) > MaxChecks {
		return badCheck("checks", strconv.Itoa(len(checks)), "at most "+strconv.Itoa(MaxChecks)+" at once")
	}
	for i := range checks {
		for j := range i {
			if checks[i].Key == checks[j].Key {
				return badCheck("Key", quote(checks[i].Key), "different keys: each limit of a client needs its own key")
			}
		}
	}
	return nil
}

package harness

// Overshoot is how many times what a contender takes once it is full its process took on the way there.
func (f Filling) Overshoot() float64 {
	return float64(f.After.Peak-f.Before.RSS) / float64(max(f.After.RSS-f.Before.RSS, 1))
}

// A Filling is what a child tells once its contender knows its keys.
type Filling struct {
	Keys          int
	Seconds       float64
	Before, After Footprint
	Table         *TableSize `json:",omitempty"`
}

// A Growth is how long single insertions took while a table grew from nothing, in nanoseconds.
type Growth struct {
	Keys                       int
	Seconds                    float64 // from the first to the last
	P50, P99, P999, P9999, Max int64
	Mean                       float64
	Above100us                 int64
	Steps, LongSteps           int64 // of rehashing and sweeping, as the contender counts them; none if it does not
}

// A TablePoint is how large a table is at a number of keys.
type TablePoint struct {
	Keys  int64
	Bytes int64
}

// PerKey returns bytes a key.
func (p TablePoint) PerKey() float64 { return float64(p.Bytes) / float64(p.Keys) }

// A TableGrowth is how large a table was while it grew: at the sizes asked for, and the most and least that a key took
// from the first of them on, looked at after every hundredth more.
type TableGrowth struct {
	At         []TablePoint
	Most, Best TablePoint
}

// A TableSize is what a contender says of its own table.
type TableSize struct {
	Keys  int64
	Bytes int64
	// Lost is how many keys were evicted or refused. A run in which it is not zero measures something else.
	Lost int64
}

// PerKey returns bytes a key.
func (f Filling) PerKey(bytes int64) float64 { return float64(bytes) / float64(max(f.Keys, 1)) }

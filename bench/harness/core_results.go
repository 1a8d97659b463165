package harness

// Overshoot is the largest memory of a process while its contender is filled, divided by the memory afterwards.
func (f Filling) Overshoot() float64 {
	return float64(f.After.Peak-f.Before.RSS) / float64(max(f.After.RSS-f.Before.RSS, 1))
}

// A Filling is the report of a child whose contender has all keys.
type Filling struct {
	Keys          int
	Seconds       float64
	Before, After Footprint
	Table         *TableSize `json:",omitempty"`
}

// A Growth has the durations of single insertions while a table grows from empty, in nanoseconds.
type Growth struct {
	Keys                       int
	Seconds                    float64 // from the first to the last
	P50, P99, P999, P9999, Max int64
	Mean                       float64
	Above100us                 int64
	Steps, LongSteps           int64 // of rehashing and sweeping, as the contender counts them; none if it does not
}

// A TablePoint is the size of a table at a number of keys.
type TablePoint struct {
	Keys  int64
	Bytes int64
}

// PerKey returns the bytes per key.
func (p TablePoint) PerKey() float64 { return float64(p.Bytes) / float64(p.Keys) }

// A TableGrowth has the sizes of a table while it grows: at the requested numbers of keys, and the most and least bytes
// per key after the first of them, measured after each increase by a hundredth.
type TableGrowth struct {
	At         []TablePoint
	Most, Best TablePoint
}

// A TableSize is the size of a table as its contender reports it.
type TableSize struct {
	Keys  int64
	Bytes int64
	// Lost is the number of keys that were evicted or refused. If it is not zero, the run is not valid.
	Lost int64
}

// PerKey returns the bytes per key.
func (f Filling) PerKey(bytes int64) float64 { return float64(bytes) / float64(max(f.Keys, 1)) }

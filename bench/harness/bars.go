package harness

import (
	"fmt"
)

// A Bar is a promise about the results, and whether this run met it.
type Bar struct {
	What, Want, Measured, Verdict string
}

// The verdicts on a bar.
const (
	Met         = "met"
	NotMet      = "**not met**"
	NotMeasured = "not measured"
)

// UnmeasuredBar returns a bar that this run did not measure.
func UnmeasuredBar(what, want string) Bar { return Bar{what, want, "", NotMeasured} }

// JudgedBar returns a bar with the verdict of this run.
func JudgedBar(what, want, measured string, ok bool) Bar {
	if ok {
		return Bar{what, want, measured, Met}
	}
	return Bar{what, want, measured, NotMet}
}

// FasterThanPeers returns the bar that Headgate is a given number of times as fast as the fastest peer.
func FasterThanPeers(t *SpeedTable, what string, times float64) Bar {
	want := fmt.Sprintf("≥ %g × the fastest peer", times)
	us, them := t.first(Ours), t.fastest(Peer)
	if us == nil || them == nil {
		return UnmeasuredBar(what, want)
	}
	ratio := them.Spread.Median / us.Spread.Median
	return JudgedBar(what, want, fmt.Sprintf("%.2f × (%s ns; %s: %s ns)",
		ratio, HumanNs(us.Spread.Median), them.Contender, HumanNs(them.Spread.Median)), ratio >= times)
}

// NearFloor returns the bar that Headgate takes at most a given multiple of the floor's time.
func NearFloor(t *SpeedTable, what string, times float64) Bar {
	want := fmt.Sprintf("≤ %.3g × the floor's time", times)
	us, least := t.first(Ours), t.first(Floor)
	if us == nil || least == nil {
		return UnmeasuredBar(what, want)
	}
	ratio := us.Spread.Median / least.Spread.Median
	return JudgedBar(what, want, fmt.Sprintf("%.2f × (%s against %s ns)",
		ratio, HumanNs(us.Spread.Median), HumanNs(least.Spread.Median)), ratio <= times)
}

// AllocatesNothing returns the bar that a decision of Headgate allocates nothing.
func AllocatesNothing(t *SpeedTable, what string) Bar {
	const want = "0 allocations"
	us := t.Row("headgate")
	if us == nil {
		return UnmeasuredBar(what, want)
	}
	return JudgedBar(what, want, HumanAllocs(us.Allocs), us.Allocs < NoAllocs)
}

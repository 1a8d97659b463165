package doctor

import (
	"context"
	"fmt"
	"time"
)

// maxSkew is the clock skew of another host above which there is a warning.
const maxSkew = time.Second

const fixSkew = "synchronize the clocks of both hosts, for example with chrony or systemd-timesyncd"

// checkClock checks that the clock of this host is synchronized. The checks of other servers compare their clocks with
// it.
func (r *run) checkClock(context.Context) {
	const check = "clock"
	synchronized, known := clockSynchronized()
	switch {
	case !known:
		r.add(Result{check, Skipped, "this system does not report whether its clock is synchronized", ""})
	case !synchronized:
		r.warn(check, "the clock of this host is not synchronized: aligned windows and expiry times go by it",
			"run an NTP client, for example: timedatectl set-ntp true")
	default:
		r.ok(check, "synchronized")
	}
}

// checkSkew adds a warning if the clock of a host differs by more than maxSkew from the clock of this host. tolerance
// is the possible error of skew.
func (r *run) checkSkew(check, host string, skew, tolerance time.Duration) {
	if skew.Abs() <= maxSkew+tolerance {
		return
	}
	direction := "behind"
	if skew > 0 {
		direction = "ahead of"
	}
	r.warn(check,
		fmt.Sprintf("the clock of %s is %v %s the clock of this host", host, skew.Abs().Round(10*time.Millisecond),
			direction),
		fixSkew)
}

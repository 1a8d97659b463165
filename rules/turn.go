package rules

import "time"

// A turn is work during which those who wait for a processor are let pass now and then. To yield is not enough for that: who
// yields and finds nobody waiting goes on, without a look at the network, and while the collector has the other processors a
// request that comes from there waits until the scheduler ends somebody's turn, which are ten milliseconds. Who sleeps has it
// look at everything. On a machine that has nothing else to do, a sleep takes a millisecond, however short it is to be.
type turn struct {
	steps uint
	since time.Time // others were let pass
}

const (
	politeAfter = time.Millisecond
	politePause = 20 * time.Microsecond
	politeSteps = 8 // after which the clock is looked at
)

// polite is called for each step.
func (t *turn) polite() {
	if t.steps++; t.steps%politeSteps != 1 {
		return
	}
	now := time.Now() //nolint:forbidigo // no decision goes by it
	if t.since.IsZero() {
		t.since = now
	}
	if now.Sub(t.since) >= politeAfter {
		time.Sleep(politePause)
		t.since = time.Now() //nolint:forbidigo // as above
	}
}

package h2

import "time"

const (
	budgetMax     = 1000 // at the beginning, and at most
	budgetRefill  = 10 * time.Millisecond
	usefulCredit  = 4 // for each useful frame
	settingsCosts = 4 // a change of windows concerns all streams
)

// A budget bounds frames that cost work without a use. Only the reading goroutine uses it.
type budget struct {
	left     int
	refilled time.Duration // when it was refilled
	credited int64         // useful frames until then
}

// spend takes n from the budget. It returns false if that is not possible before it is refilled.
func (b *budget) spend(n int) bool {
	b.left -= n
	return b.left >= 0
}

// refill adds what the budget gains over time and by useful frames. useful is the number of useful frames so far. It
// reports whether the budget is not overdrawn.
func (b *budget) refill(now time.Duration, useful int64) bool {
	gain := int64((now-b.refilled)/budgetRefill) + usefulCredit*(useful-b.credited)
	b.left = int(min(int64(b.left)+gain, budgetMax))
	b.refilled, b.credited = now, useful
	return b.left >= 0
}

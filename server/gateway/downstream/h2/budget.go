package h2

import "time"

const (
	budgetMax    = 1000                  // the budget of a new connection, and the most that it can grow to
	budgetRefill = 10 * time.Millisecond // the budget grows by 1 in this time
	usefulCredit = 4                     // the budget grows by this for each useful frame
	settingsCost = 4                     // more than other frames, because a change of the window size is applied to all streams
)

// A budget bounds the number of frames that cost work but are of no use to the client, such as
// pings. Only the reading goroutine uses it.
type budget struct {
	left     int
	refilled time.Duration // the time of the last refill
	credited int64         // the number of useful frames at that time
}

// spend takes n from the budget. It returns false if the budget is overdrawn. The caller then calls
// refill, which may make up for it.
func (b *budget) spend(n int) bool {
	b.left -= n
	return b.left >= 0
}

// refill adds to the budget for the time and the useful frames since the last refill. useful is the number of useful
// frames so far. It reports whether the budget is not overdrawn.
func (b *budget) refill(now time.Duration, useful int64) bool {
	gain := int64((now-b.refilled)/budgetRefill) + usefulCredit*(useful-b.credited)
	b.left = int(min(int64(b.left)+gain, budgetMax))
	b.refilled, b.credited = now, useful
	return b.left >= 0
}

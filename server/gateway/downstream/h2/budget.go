package h2

import "time"

const (
	budgetMax    = 1000                  // the budget of a new connection, and the most that it can grow to
	budgetRefill = 10 * time.Millisecond // the budget grows by 1 in this time
	usefulCredit = 4                     // the budget grows by this for each useful frame
	settingsCost = 4                     // SETTINGS costs more than other frames, because it may change all streams
)

// A budget limits the number of frames that an attacker can send cheaply, such as pings. Useful frames, which a client
// needs for requests, increase the budget. Only the reading goroutine uses it.
type budget struct {
	left     int
	refilled time.Duration // the time of the last refill
	credited int64         // the number of useful frames at that time
}

// spend takes n from the budget. It returns false if the budget is overdrawn. Then the caller must call refill, because
// the budget may have grown since the last refill.
func (b *budget) spend(n int) bool {
	b.left -= n
	return b.left >= 0
}

// refill increases the budget by the time and the useful frames since the last refill. useful is the total number of
// useful frames. It returns false if the budget is still overdrawn.
func (b *budget) refill(now time.Duration, useful int64) bool {
	gain := int64((now-b.refilled)/budgetRefill) + usefulCredit*(useful-b.credited)
	b.left = int(min(int64(b.left)+gain, budgetMax))
	b.refilled, b.credited = now, useful
	return b.left >= 0
}

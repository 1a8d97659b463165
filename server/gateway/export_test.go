package gateway

import "net/netip"

// of returns how many uploads of a client are in flight.
func (u *uploads) of(client netip.Addr) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.counts[client]
}

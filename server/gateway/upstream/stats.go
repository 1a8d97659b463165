package upstream

// Stats are figures of a Pool.
type Stats struct {
	// Open is the number of connections, including those that are being opened. Idle is the number of unused connections.
	Open, Idle int
	// Waiting is the number of requests that wait for a connection.
	Waiting int

	// Requests counts the requests that asked for a connection.
	Requests uint64
	// Dials counts the attempts to connect, including those that failed. DialErrors counts those that failed.
	Dials, DialErrors uint64
	// Released counts how often a connection was reusable after a request.
	Released uint64
	// Stale counts idle connections that were found closed or expired when they were needed.
	Stale uint64
	// Retries counts requests that were sent again because the upstream had closed their connection.
	Retries uint64
}

// Stats returns the current figures.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Open, s.Idle, s.Waiting = p.slots, len(p.idle), p.waiters.Len()
	return s
}

package upstream

// Stats tell what a pool has and has done.
type Stats struct {
	// Open is how many connections there are, or are being made; Idle how many of them are not in use.
	Open, Idle int
	// Waiting is how many requests wait for a connection.
	Waiting int

	// Requests is how many asked for a connection.
	Requests uint64
	// Dials is how many connections were made, or could not be; DialErrors how many could not.
	Dials, DialErrors uint64
	// Reusable is how often a connection could be used again after a request.
	Reusable uint64
	// Stale is how often an idle connection was found to be of no more use when it was wanted.
	Stale uint64
	// Retries is how many requests were sent once more, since the connection that they were sent on had gone.
	Retries uint64
}

// Stats returns what the pool has and has done so far.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Open, s.Idle, s.Waiting = p.open, len(p.idle), p.waiting.length
	return s
}

package sharednotes

import "time"

// Members is the list of nodes of a simulated Redis server.
type Members struct {
	beatAt    map[string]int64 // by node: when its entry was last refreshed, in ms
	expiresAt int64
}

// Beat runs the script of fleetredis.MemberList.Beat at a time of the server.
func (m *Members) Beat(node string, live, known time.Duration, now time.Time) (nLive, nKnown int, listed bool) {
	ms := now.UnixMilli()
	if m.beatAt == nil || ms > m.expiresAt {
		m.beatAt = make(map[string]int64)
	}
	_, listed = m.beatAt[node]
	m.beatAt[node], m.expiresAt = ms, ms+known.Milliseconds()
	for name, at := range m.beatAt {
		switch {
		case at > ms: // another server, whose clock was ahead, has written it
			m.beatAt[name] = ms
		case at <= ms-known.Milliseconds():
			delete(m.beatAt, name)
			continue
		}
		nKnown++
		if m.beatAt[name] >= ms-live.Milliseconds() {
			nLive++
		}
	}
	return nLive, nKnown, listed
}

package redisstore

import "time"

// Sent returns when something was last sent to the server of a shard. It is zero if that is not known. A call that was
// made later has not been sent yet, because the processor is busy with other work.
func (s *Store) Sent(shard string) time.Time {
	var last time.Time
	s.eachConn(shard, func(w *watchedConn) bool {
		if at := w.node.made.Add(time.Duration(w.wroteAt.Load())); last.IsZero() || at.Before(last) {
			last = at
		}
		return true
	})
	return last
}

// Unread reports whether the server of a shard has sent something that was not read yet, because the processor is busy with
// other work.
func (s *Store) Unread(shard string) bool {
	found := false
	s.eachConn(shard, func(w *watchedConn) bool {
		found = !w.reads.Load() || unread(w.socket)
		return !found
	})
	return found
}

// Heard returns when something was last read from the server of a shard, the zero time if that is not known.
func (s *Store) Heard(shard string) time.Time {
	var last time.Time
	s.eachConn(shard, func(w *watchedConn) bool {
		if at := w.node.made.Add(time.Duration(w.node.heardAt.Load())); at.After(last) {
			last = at
		}
		return true
	})
	return last
}

// eachConn calls do with the connections to the primary of a shard, until it returns false. Keys that are counted in parts
// have many.
func (s *Store) eachConn(shard string, do func(*watchedConn) bool) {
	m := s.conn.topology.Load()
	if m == nil {
		return
	}
	for i := range m.shards {
		if sh := &m.shards[i]; sh.name == shard || shard == splitShard {
			if w := sh.primary.connected(); w != nil && !do(w) {
				return
			}
		}
	}
}

// connected returns the node's connection, nil if there is none or it cannot be used.
func (n *node) connected() *watchedConn {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.up() {
		return nil
	}
	return n.conn
}

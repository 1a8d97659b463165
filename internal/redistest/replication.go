package redistest

import (
	"fmt"
	"strconv"
)

// replication is the replication state of a server.
type replication struct {
	primary     bool
	primaryPort int   // of the primary of a replica
	connected   bool  // a replica has synced with its primary and is connected to it
	offset      int64 // how much of the primary's writes the server has
}

// replication returns the replication state of the server.
func (s *Server) replication() (replication, error) {
	fields, err := s.info("replication")
	if err != nil {
		return replication{}, err
	}
	offset, err := strconv.ParseInt(fields["master_repl_offset"], 10, 64)
	if err != nil {
		return replication{}, fmt.Errorf("%s: master_repl_offset: %w", s, err)
	}
	if fields["role"] == "master" {
		return replication{primary: true, offset: offset}, nil
	}
	port, err := strconv.Atoi(fields["master_port"])
	if err != nil {
		return replication{}, fmt.Errorf("%s: role %q, master_port: %w", s, fields["role"], err)
	}
	return replication{primaryPort: port, connected: fields["master_link_status"] == "up", offset: offset}, nil
}

// replicates returns an error unless the server is a connected replica of the primary.
func (s *Server) replicates(primary *Server) error {
	r, err := s.replication()
	switch {
	case err != nil:
		return err
	case r.primary:
		return fmt.Errorf("%s is a primary; want a replica of %s", s, primary)
	case r.primaryPort != primary.port:
		return fmt.Errorf("%s is a replica of port %d; want %s", s, r.primaryPort, primary)
	case !r.connected:
		return fmt.Errorf("%s is not connected to its primary", s)
	}
	return nil
}

// awaitReplicas waits until the replicas have all earlier writes of this primary. A replica that has just connected may
// lag by up to a second, because the primary sends nothing before the replica's next ping. If the primary were killed
// in this second, these writes would be lost.
func (s *Server) awaitReplicas(replicas []*Server) {
	s.t.Helper()
	primary, err := s.replication()
	if err != nil {
		s.t.Fatal(err)
	}
	caughtUp := func() error {
		for _, replica := range replicas {
			r, err := replica.replication()
			if err != nil {
				return err
			}
			if r.offset < primary.offset {
				return fmt.Errorf("%s is at offset %d; want %d", replica, r.offset, primary.offset)
			}
		}
		return nil
	}
	if err := waitUntil("replicate", caughtUp); err != nil {
		s.t.Fatal(err)
	}
}

package redistest

import (
	"fmt"
	"strconv"
)

// replication is the replication state of a server.
type replication struct {
	primary bool
	of      int  // the port of a replica's primary
	linked  bool // a replica has synced with its primary and is connected
	offset  int64
}

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
	of, err := strconv.Atoi(fields["master_port"])
	if err != nil {
		return replication{}, fmt.Errorf("%s: role %q, master_port: %w", s, fields["role"], err)
	}
	return replication{of: of, linked: fields["master_link_status"] == "up", offset: offset}, nil
}

// replicates returns an error unless the server is a linked replica of the primary.
func (s *Server) replicates(primary *Server) error {
	r, err := s.replication()
	switch {
	case err != nil:
		return err
	case r.primary:
		return fmt.Errorf("%s is a primary; want a replica of %s", s, primary)
	case r.of != primary.port:
		return fmt.Errorf("%s is a replica of port %d; want %s", s, r.of, primary)
	case !r.linked:
		return fmt.Errorf("%s has no link to its primary", s)
	}
	return nil
}

// awaitReplicas waits until servers have all earlier writes of their primary. They may lag right after linking: a
// primary begins to send only after the next ping of a replica, up to a second later, and writes of that time would be
// lost with it.
func (s *Server) awaitReplicas(replicas []*Server) {
	s.t.Helper()
	written, err := s.replication()
	if err != nil {
		s.t.Fatal(err)
	}
	caughtUp := func() error {
		for _, replica := range replicas {
			r, err := replica.replication()
			if err != nil {
				return err
			}
			if r.offset < written.offset {
				return fmt.Errorf("%s is at offset %d; want %d", replica, r.offset, written.offset)
			}
		}
		return nil
	}
	if err := waitUntil("replicate", caughtUp); err != nil {
		s.t.Fatal(err)
	}
}

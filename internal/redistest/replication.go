package redistest

import (
	"fmt"
	"strconv"
)

// replication is what a server says of its part in a set.
type replication struct {
	primary bool
	of      int  // the port of a replica's primary
	linked  bool // a replica has its primary's data and gets what is new
}

func (s *Server) replication() (replication, error) {
	fields, err := s.info("replication")
	if err != nil {
		return replication{}, err
	}
	if fields["role"] == "master" {
		return replication{primary: true}, nil
	}
	of, err := strconv.Atoi(fields["master_port"])
	if err != nil {
		return replication{}, fmt.Errorf("%s: role %q, master_port: %w", s, fields["role"], err)
	}
	return replication{of: of, linked: fields["master_link_status"] == "up"}, nil
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

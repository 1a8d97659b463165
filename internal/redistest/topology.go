package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A member is a server of a cluster, as another server describes it.
type member struct {
	id    string
	flags []string // such as myself, master, fail?
	epoch int64    // if two members claim a slot, the one with the higher epoch owns it
	slots []string // ranges such as 0-5460, and single slots
}

// members returns a server's view of its cluster.
func (s *Server) members() ([]member, error) {
	reply, err := s.Do("CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	var list []member
	for line := range strings.Lines(fmt.Sprint(reply)) {
		m, err := readMember(line)
		if err != nil {
			return nil, fmt.Errorf("CLUSTER NODES of %s: %w", s, err)
		}
		list = append(list, m)
	}
	return list, nil
}

// readMember parses ID ADDRESS FLAGS PRIMARY PING PONG EPOCH LINK SLOT….
func readMember(line string) (member, error) {
	fields := strings.Fields(line)
	if len(fields) < 8 {
		return member{}, fmt.Errorf("got %q, want eight fields", line)
	}
	epoch, err := strconv.ParseInt(fields[6], 10, 64)
	if err != nil {
		return member{}, err
	}
	return member{id: fields[0], flags: strings.Split(fields[2], ","), epoch: epoch, slots: fields[8:]}, nil
}

func (m member) hasFlag(flag string) bool { return slices.Contains(m.flags, flag) }

// owns reports whether the member owns a slot. Migrating slots are in brackets and do not count.
func (m member) owns(slot int) bool {
	for _, r := range m.slots {
		first, last, isRange := strings.Cut(r, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err == nil && err2 == nil && from <= slot && slot <= to {
			return true
		}
	}
	return false
}

// owner returns the running server that claims a slot.
func (c *ClusterSet) owner(slot int) (*Server, error) {
	var owner *Server
	var epoch int64
	for _, s := range running(c.servers) {
		list, err := s.members()
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			if m.hasFlag("myself") && m.hasFlag("master") && m.owns(slot) && (owner == nil || m.epoch > epoch) {
				owner, epoch = s, m.epoch
			}
		}
	}
	if owner == nil {
		return nil, fmt.Errorf("redistest: no running server owns slot %d", slot)
	}
	return owner, nil
}

// settled returns an error unless all running servers accept requests, agree on the owners of slots and have the same
// current epoch. The epochs matter for a later failover: if a primary is killed just after it has raised its epoch, a
// replica could be elected with the same epoch, and the other servers would never accept it.
func (c *ClusterSet) settled() error {
	servers := running(c.servers)
	if len(servers) == 0 {
		return errors.New("no server runs")
	}
	var agreed, epoch string
	for _, s := range servers {
		current, err := c.complete(s)
		if err != nil {
			return err
		}
		if epoch != "" && current != epoch {
			return fmt.Errorf("%s is in epoch %s, others are in %s", s, current, epoch)
		}
		epoch = current
		list, err := s.members()
		if err != nil {
			return err
		}
		owners, err := c.slotOwners(list)
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		if agreed != "" && owners != agreed {
			return fmt.Errorf("%s sees %s, others see %s", s, owners, agreed)
		}
		agreed = owners
		r, err := s.replication()
		if err == nil && !r.primary {
			err = c.follows(s, r, list)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// waitUntil calls the function waitUntil, and adds to its error what each server knows of the cluster.
func (c *ClusterSet) waitUntil(what string, try func() error) error {
	err := waitUntil(what, try)
	if err == nil {
		return nil
	}
	for _, s := range running(c.servers) {
		info, infoErr := s.Do("CLUSTER", "INFO")
		nodes, nodesErr := s.Do("CLUSTER", "NODES")
		err = fmt.Errorf("%w\n%s:\n%v%v", err, s, info, nodes)
		if askErr := errors.Join(infoErr, nodesErr); askErr != nil {
			err = fmt.Errorf("%w\n%w", err, askErr)
		}
	}
	return err
}

// complete returns the current epoch of a server. It returns an error unless the server accepts requests and knows all
// other servers.
func (c *ClusterSet) complete(s *Server) (epoch string, err error) {
	reply, err := s.Do("CLUSTER", "INFO")
	if err != nil {
		return "", err
	}
	fields, err := fieldsOf(reply)
	if err != nil {
		return "", err
	}
	if state := fields["cluster_state"]; state != "ok" {
		return "", fmt.Errorf("%s: got cluster_state %q, want ok", s, state)
	}
	if known, want := fields["cluster_known_nodes"], strconv.Itoa(len(c.servers)); known != want {
		return "", fmt.Errorf("%s: got cluster_known_nodes %s, want %s", s, known, want)
	}
	return fields["cluster_current_epoch"], nil
}

// slotOwners returns the owners of all slots as a text, and an error if a running server is seen as down.
func (c *ClusterSet) slotOwners(list []member) (string, error) {
	var owners []string
	epochs := map[int64]string{} // of primaries
	for _, m := range list {
		switch s := c.byID(m.id); {
		case s == nil:
			return "", fmt.Errorf("unknown member %s", m.id)
		case s.Running() && (m.hasFlag("fail") || m.hasFlag("fail?") || m.hasFlag("handshake")):
			return "", fmt.Errorf("%s is seen as %s", s, strings.Join(m.flags, ","))
		}
		owned := slices.DeleteFunc(slices.Clone(m.slots), func(r string) bool { return strings.HasPrefix(r, "[") })
		if m.hasFlag("master") && len(owned) > 0 {
			if other, ok := epochs[m.epoch]; ok {
				return "", fmt.Errorf("%s and %s have the same epoch %d", other, m.id, m.epoch)
			}
			epochs[m.epoch] = m.id
			owners = append(owners, m.id[:8]+" "+strings.Join(owned, " "))
		}
	}
	slices.Sort(owners)
	return strings.Join(owners, ", "), nil
}

// follows returns an error unless a replica is connected to a running primary that owns slots.
func (c *ClusterSet) follows(s *Server, r replication, list []member) error {
	for _, m := range list {
		if p := c.byID(m.id); p != nil && p.port == r.primaryPort && len(m.slots) > 0 && p.Running() {
			return s.replicates(p)
		}
	}
	return fmt.Errorf("%s replicates port %d, where no running primary is", s, r.primaryPort)
}

func (c *ClusterSet) byID(id string) *Server {
	for s, known := range c.ids {
		if known == id {
			return s
		}
	}
	return nil
}

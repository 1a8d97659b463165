package redistest

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// ClusterOptions configure a ClusterSet. The zero ClusterOptions are good for most tests.
type ClusterOptions struct {
	// Server has the options of each server.
	Server Options
	// Clocks are the clock offsets of the servers, in the order of Servers. They are added to
	// Server.ClockOffset. Default 0 for missing ones.
	Clocks []time.Duration
	// NodeTimeout is how long a server must not respond before the others consider it down. Default 1.5s.
	NodeTimeout time.Duration
}

const (
	primaries    = 3
	clusterNodes = 2 * primaries
)

// A ClusterSet is a Redis Cluster: three primaries with a third of the slots each, and a replica of each.
type ClusterSet struct {
	t       testing.TB
	o       ClusterOptions
	servers []*Server
	ids     map[*Server]string
	elected time.Time // when the last election of a replica was noticed
	epoch   string    // the current epoch then, or after a later move of a slot
}

// Cluster starts a ClusterSet and waits until it is complete.
func Cluster(t testing.TB, o ClusterOptions) *ClusterSet {
	t.Helper()
	if o.NodeTimeout == 0 {
		o.NodeTimeout = 1500 * time.Millisecond
	}
	serverOptions, err := o.Server.withClocks(clusterNodes, o.Clocks)
	if err != nil {
		t.Fatal(err)
	}
	c := &ClusterSet{t: t, o: o, ids: make(map[*Server]string)}
	certs := certificatesFor(t, o.Server)
	role := []string{
		"cluster-enabled yes",
		fmt.Sprintf("cluster-node-timeout %d", o.NodeTimeout.Milliseconds()),
		// A replica may take over no matter how long it has been disconnected.
		"cluster-replica-validity-factor 0",
	}
	if certs != nil {
		role = append(role, "tls-cluster yes")
	}
	for i, serverOption := range serverOptions {
		c.servers = append(c.servers, newServer(t, fmt.Sprintf("node %d", i), serverOption, certs, role...))
	}
	if err := c.form(); err != nil {
		t.Fatal(err)
	}
	c.epoch = c.currentEpoch()
	return c
}

// form starts the servers and joins them to a cluster.
func (c *ClusterSet) form() error {
	if err := startAll(c.servers...); err != nil {
		return err
	}
	for i, s := range c.servers {
		id, err := s.Do("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		c.ids[s] = fmt.Sprint(id)
		if _, err := s.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
	}
	for i, s := range c.servers[:primaries] {
		from, to := Slots*i/primaries, Slots*(i+1)/primaries-1
		if _, err := s.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(from), strconv.Itoa(to)); err != nil {
			return err
		}
	}
	if err := c.meet(); err != nil {
		return err
	}
	nextMeet := time.Now().Add(meetInterval)
	for i, s := range c.servers[primaries:] {
		replicate := func() error {
			_, err := s.Do("CLUSTER", "REPLICATE", c.ids[c.servers[i]])
			if err != nil && time.Now().After(nextMeet) {
				nextMeet = time.Now().Add(meetInterval)
				if err := c.meet(); err != nil {
					return err
				}
			}
			return err
		}
		if err := waitUntil("replicate", replicate); err != nil {
			return err
		}
	}
	return c.waitUntil("form a cluster", c.settled)
}

// meetInterval is the time after which servers that do not know each other are introduced again. On a busy machine they
// can miss the first introduction, and they do not retry.
const meetInterval = 3 * time.Second

// meet introduces every server to every other. Gossip would also do this, but it takes seconds.
func (c *ClusterSet) meet() error {
	for i, s := range c.servers {
		for _, other := range c.servers[i+1:] {
			if _, err := s.Do("CLUSTER", "MEET", host, strconv.Itoa(other.port)); err != nil {
				return err
			}
		}
	}
	return nil
}

// URL returns redis-cluster://HOST:PORT,HOST:PORT,… with all servers, and the default user's password if it has one.
func (c *ClusterSet) URL() string { return urlOf("redis-cluster", c.o.Server, addrs(c.servers)) }

// Servers returns all servers: at the beginning, three primaries and then their replicas in the same order.
func (c *ClusterSet) Servers() []*Server { return c.servers }

// PrimaryOf returns the running server that owns the slot of a key.
func (c *ClusterSet) PrimaryOf(key string) *Server {
	c.t.Helper()
	return c.PrimaryOfSlot(SlotOf(key))
}

// PrimaryOfSlot returns the running server that owns a slot.
func (c *ClusterSet) PrimaryOfSlot(slot int) *Server {
	c.t.Helper()
	s, err := c.owner(slot)
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// ReplicaOf returns a running replica of a primary.
func (c *ClusterSet) ReplicaOf(primary *Server) *Server {
	c.t.Helper()
	for _, s := range running(c.servers) {
		if r, err := s.replication(); err == nil && !r.primary && r.primaryPort == primary.port {
			return s
		}
	}
	c.t.Fatalf("redistest: %s has no running replica", primary)
	return nil
}

// Failover makes a replica take over from its working primary, and waits until the whole cluster knows. If the same
// shard has failed over just before, this takes two node timeouts, because the other servers do not vote earlier.
func (c *ClusterSet) Failover(replica *Server) {
	c.t.Helper()
	var requestedAt time.Time
	promoted := func() error {
		r, err := replica.replication()
		switch {
		case err != nil:
			return err
		case r.primary:
			return c.settled()
		case time.Since(requestedAt) > c.o.NodeTimeout: // the server forgets a failed request, so request it again
			requestedAt = time.Now()
			if _, err := replica.Do("CLUSTER", "FAILOVER"); err != nil {
				return err
			}
		}
		return fmt.Errorf("%s is still a replica", replica)
	}
	if err := c.waitUntil("fail over", promoted); err != nil {
		c.t.Fatal(err)
	}
	c.elected, c.epoch = time.Now(), c.currentEpoch()
}

// KillPrimaryOf kills the server that owns the slot of a key, and returns it. It first waits four node timeouts, until
// replicas have forgotten the votes of the last failover. A replica that still has votes would use them without an
// election. Its claim to the slots would then be older than that of the killed primary, and the other servers would
// never accept it. On a busy machine, servers also fail over on their own; then the epoch has changed.
func (c *ClusterSet) KillPrimaryOf(key string) *Server {
	c.t.Helper()
	for {
		c.Settle()
		if epoch := c.currentEpoch(); epoch != c.epoch {
			c.elected, c.epoch = time.Now(), epoch
		}
		wait := time.Until(c.elected.Add(4 * c.o.NodeTimeout))
		if wait <= 0 {
			break
		}
		time.Sleep(wait)
	}
	s := c.PrimaryOf(key)
	s.Kill()
	return s
}

// currentEpoch returns the current epoch of the cluster, which must be settled: servers agree on it then.
func (c *ClusterSet) currentEpoch() string {
	c.t.Helper()
	reply := running(c.servers)[0].must("CLUSTER", "INFO")
	fields, err := fieldsOf(reply)
	if err != nil {
		c.t.Fatal(err)
	}
	return fields["cluster_current_epoch"]
}

// WaitForFailover waits until a replica has replaced old as the primary of a key and all running servers know. It
// returns the new primary.
func (c *ClusterSet) WaitForFailover(key string, old *Server) *Server {
	c.t.Helper()
	var now *Server
	replaced := func() (err error) {
		if now, err = c.owner(SlotOf(key)); err != nil {
			return err
		}
		if now == old {
			return fmt.Errorf("%s is still the primary of %q", old, key)
		}
		return c.settled()
	}
	if err := c.waitUntil("fail over", replaced); err != nil {
		c.t.Fatal(err)
	}
	c.elected, c.epoch = time.Now(), c.currentEpoch()
	return now
}

// Settle waits until all running servers agree on the owners of slots, accept requests, and replicate from the right
// primary.
func (c *ClusterSet) Settle() {
	c.t.Helper()
	if err := c.waitUntil("settle", c.settled); err != nil {
		c.t.Fatal(err)
	}
}

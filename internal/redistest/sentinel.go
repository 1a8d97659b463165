package redistest

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"
)

// PrimaryName is the sentinels' name of their primary.
const PrimaryName = "mymaster"

// SentinelOptions configure a SentinelSet. The zero SentinelOptions are good for most tests.
type SentinelOptions struct {
	// Server has the options of the primary and the replicas. The sentinels share its TLS, but not its users.
	Server Options
	// Clocks are the clock offsets of the primary and the two replicas, added to Server.ClockOffset. Default 0 for
	// missing ones.
	Clocks []time.Duration
	// DownAfter is how long a server must not respond before a sentinel considers it down. Default 1s.
	DownAfter time.Duration
}

// A SentinelSet is a primary, two replicas, and three sentinels of which two must agree that the primary is down.
type SentinelSet struct {
	t         testing.TB
	o         SentinelOptions
	servers   []*Server
	sentinels []*Server
}

// Sentinel starts a SentinelSet and waits until all of its servers know each other.
func Sentinel(t testing.TB, o SentinelOptions) *SentinelSet {
	t.Helper()
	if o.DownAfter == 0 {
		o.DownAfter = time.Second
	}
	serverOptions, err := o.Server.withClocks(3, o.Clocks)
	if err != nil {
		t.Fatal(err)
	}
	set := &SentinelSet{t: t, o: o}
	certs := certificatesFor(t, o.Server)
	for i, serverOption := range serverOptions {
		// A failover selects the replica of the lowest priority, so that a test knows which.
		s := newServer(t, fmt.Sprintf("server %d", i), serverOption, certs, fmt.Sprintf("replica-priority %d", i+1))
		set.servers = append(set.servers, s)
	}
	for i := range 3 {
		s := newServer(t, fmt.Sprintf("sentinel %d", i), Options{TLS: o.Server.TLS}, certs)
		s.admin, s.args = false, []string{"--sentinel"}
		set.sentinels = append(set.sentinels, s)
	}
	if err := set.start(); err != nil {
		t.Fatal(err)
	}
	return set
}

// start starts the servers and then the sentinels, and waits until all know each other.
func (set *SentinelSet) start() error {
	primary, replicas := set.servers[0], set.servers[1:]
	if err := primary.start(); err != nil {
		return err
	}
	for _, s := range replicas {
		s.role = append(s.role, fmt.Sprintf("replicaof %s %d", host, primary.port))
	}
	if err := startAll(replicas...); err != nil {
		return err
	}
	// Sentinels look for new replicas only every ten seconds, so these should exist already.
	for _, s := range replicas {
		if err := waitUntil("replicate", func() error { return s.replicates(primary) }); err != nil {
			return err
		}
	}
	for _, s := range set.sentinels {
		s.role = []string{
			fmt.Sprintf("sentinel monitor %s %s %d 2", PrimaryName, host, primary.port),
			fmt.Sprintf("sentinel down-after-milliseconds %s %d", PrimaryName, set.o.DownAfter.Milliseconds()),
			fmt.Sprintf("sentinel failover-timeout %s 3000", PrimaryName),
			fmt.Sprintf("sentinel auth-user %s %s", PrimaryName, adminName),
			fmt.Sprintf("sentinel auth-pass %s %s", PrimaryName, adminPassword),
		}
		s.ready = speedUp
	}
	if err := startAll(set.sentinels...); err != nil {
		return err
	}
	return waitUntil("start sentinels", func() error { return set.settled(nil) })
}

// speedUp makes a sentinel ask the servers for their state more often than every ten seconds, and publish its own more
// often than every two. Sentinels before Redis 7 cannot do this, so that everything takes longer.
//
// The periods must not be too short. After four publishing periods, a sentinel turns a primary that should be a replica
// back into a replica. By then it must know of a failover: the sentinel that makes the failover detects it within a
// second, and publishes it within one period. A sentinel also promotes no replica that was silent for five ping
// periods, so these must be longer than that second, too.
//
// A sentinel that was stalled for two seconds, as on a busy machine, takes no action for half a minute. TILT-PERIOD
// shortens this to a second.
func speedUp(s *Server) {
	_, _ = s.Do("SENTINEL", "DEBUG", "INFO-PERIOD", "250", "PUBLISH-PERIOD", "600", "TILT-PERIOD", "1000")
}

// URL returns redis-sentinel://HOST:PORT,HOST:PORT,HOST:PORT/mymaster, with the default user's password if it has one.
func (set *SentinelSet) URL() string {
	return urlOf("redis-sentinel", set.o.Server, addrs(set.sentinels)) + "/" + PrimaryName
}

// Servers returns the servers that hold data: at the beginning the first is the primary.
func (set *SentinelSet) Servers() []*Server { return set.servers }

// Sentinels returns the sentinels.
func (set *SentinelSet) Sentinels() []*Server { return set.sentinels }

// Primary waits until the sentinels agree on a primary, and returns it.
func (set *SentinelSet) Primary() *Server {
	set.t.Helper()
	var primary *Server
	agreed := func() (err error) {
		primary, err = set.primary()
		return err
	}
	if err := waitUntil("agree on a primary", agreed); err != nil {
		set.t.Fatal(err)
	}
	return primary
}

// Replicas returns all servers except the primary, including those that are down.
func (set *SentinelSet) Replicas() []*Server {
	set.t.Helper()
	return without(set.servers, set.Primary())
}

func without(servers []*Server, one *Server) []*Server {
	var list []*Server
	for _, s := range servers {
		if s != one {
			list = append(list, s)
		}
	}
	return list
}

// AwaitReplicas waits until the replicas have all earlier writes of the primary.
func (set *SentinelSet) AwaitReplicas() {
	set.t.Helper()
	set.Primary().awaitReplicas(set.Replicas())
}

// Failover makes the sentinels replace a working primary, and waits until all servers follow the new one. It returns
// the new primary, which is the first of Servers that can replace the old one.
func (set *SentinelSet) Failover() *Server {
	set.t.Helper()
	old := set.Primary()
	requestFailover := func() error {
		for _, s := range running(set.sentinels) {
			_, err := s.Do("SENTINEL", "FAILOVER", PrimaryName)
			return err
		}
		return errors.New("no sentinel runs")
	}
	if err := waitUntil("ask for a failover", requestFailover); err != nil {
		set.t.Fatal(err)
	}
	requestedAt := time.Now()
	replaced := func() error {
		err := set.settled(old)
		if err == nil || time.Since(requestedAt) <= failoverInterval {
			return err
		}
		if primary, primaryErr := set.primary(); primaryErr != nil || primary != old {
			return err
		}
		requestedAt = time.Now()
		return errors.Join(err, requestFailover())
	}
	if err := waitUntil("fail over", replaced); err != nil {
		set.t.Fatal(err)
	}
	return set.Primary()
}

// failoverInterval is the time after which the sentinels are asked for a failover again. On a busy machine they may
// give up a failover, and do not retry.
const failoverInterval = 10 * time.Second

// KillPrimary kills the primary and returns it.
func (set *SentinelSet) KillPrimary() *Server {
	set.t.Helper()
	primary := set.Primary()
	primary.Kill()
	return primary
}

// WaitForFailover waits until another primary has replaced the old one and all running servers follow it. It returns
// the new primary.
func (set *SentinelSet) WaitForFailover(old *Server) *Server {
	set.t.Helper()
	if err := waitUntil("fail over", func() error { return set.settled(old) }); err != nil {
		set.t.Fatal(err)
	}
	return set.Primary()
}

// Settle waits until all running sentinels agree on a running primary, and all other running servers are its replicas.
func (set *SentinelSet) Settle() {
	set.t.Helper()
	if err := waitUntil("settle", func() error { return set.settled(nil) }); err != nil {
		set.t.Fatal(err)
	}
}

// primary returns the server that all running sentinels name as the primary.
func (set *SentinelSet) primary() (*Server, error) {
	var agreed *Server
	for _, sentinel := range running(set.sentinels) {
		reply, err := sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", PrimaryName)
		if err != nil {
			return nil, err
		}
		s, err := set.byAddr(reply)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sentinel, err)
		}
		if agreed != nil && s != agreed {
			return nil, fmt.Errorf("the sentinels do not agree on the primary: %s or %s", agreed, s)
		}
		agreed = s
	}
	if agreed == nil {
		return nil, errors.New("no sentinel runs")
	}
	return agreed, nil
}

// byAddr returns the server at an address, a list of host and port.
func (set *SentinelSet) byAddr(reply any) (*Server, error) {
	pair, _ := reply.([]any)
	if len(pair) == 2 {
		addr := net.JoinHostPort(fmt.Sprint(pair[0]), fmt.Sprint(pair[1]))
		for _, s := range set.servers {
			if s.Addr() == addr {
				return s, nil
			}
		}
	}
	return nil, fmt.Errorf("there is no server at %v", reply)
}

// settled returns an error unless the set is settled, as Settle defines it, and its primary is not the server old.
func (set *SentinelSet) settled(old *Server) error {
	primary, err := set.primary()
	if err != nil {
		return err
	}
	if primary == old || !primary.Running() {
		return fmt.Errorf("%s is still the primary", primary)
	}
	r, err := primary.replication()
	if err != nil {
		return err
	}
	if !r.primary {
		return fmt.Errorf("%s is still a replica", primary)
	}
	for _, s := range running(without(set.servers, primary)) {
		if err := s.replicates(primary); err != nil {
			return err
		}
	}
	for _, s := range running(set.sentinels) {
		if err := set.watches(s, primary); err != nil {
			return err
		}
	}
	return nil
}

// watches returns an error unless the sentinel knows the others, and sees all running servers as running.
func (set *SentinelSet) watches(sentinel, primary *Server) error {
	reply, err := sentinel.Do("SENTINEL", "MASTER", PrimaryName)
	if err != nil {
		return err
	}
	seen := pairs(reply)
	if flags := seen["flags"]; flags != "master" {
		return fmt.Errorf("%s sees the primary as %s; want master", sentinel, flags)
	}
	if others, want := seen["num-other-sentinels"], strconv.Itoa(len(set.sentinels)-1); others != want {
		return fmt.Errorf("%s sees %s other sentinels; want %s", sentinel, others, want)
	}
	if reply, err = sentinel.Do("SENTINEL", "REPLICAS", PrimaryName); err != nil {
		return err
	}
	flags := make(map[string]string)
	list, _ := reply.([]any)
	for _, replica := range list {
		seen := pairs(replica)
		flags[seen["port"]] = seen["flags"]
	}
	for _, s := range running(without(set.servers, primary)) {
		if f := flags[strconv.Itoa(s.port)]; f != "slave" {
			return fmt.Errorf("%s sees %s as %q; want slave", sentinel, s, f)
		}
	}
	return nil
}

// pairs parses a list of names and values.
func pairs(reply any) map[string]string {
	list, _ := reply.([]any)
	fields := make(map[string]string)
	for i := 0; i+1 < len(list); i += 2 {
		fields[fmt.Sprint(list[i])] = fmt.Sprint(list[i+1])
	}
	return fields
}

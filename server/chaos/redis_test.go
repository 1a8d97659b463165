package chaos

import (
	"net"
	"strings"

	"github.com/headgate/headgate/internal/redistest"
)

// startRedis starts a cluster whose servers name a proxy as their address, so that the network to each can be broken.
// The servers' own bus does not go through it: a server whose network is cut is not replaced.
func (s *system) startRedis() {
	s.t.Helper()
	s.redis = redistest.Cluster(s.t, redistest.ClusterOptions{Server: redistest.Options{MovableClock: true}})
	for _, server := range s.redis.Servers() {
		s.networks = append(s.networks, redistest.NewProxy(s.t, server.Addr()))
	}
	for i := range s.networks {
		s.announce(i)
	}
}

// announce makes a Redis server name its proxy as its address. A server forgets it when it is started again.
func (s *system) announce(i int) {
	s.t.Helper()
	_, port, err := net.SplitHostPort(s.networks[i].Addr())
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.redis.Servers()[i].Do("CONFIG", "SET", "cluster-announce-port", port); err != nil {
		s.t.Error(err)
	}
}

// redisURL returns the address of the cluster behind the proxies.
func (s *system) redisURL() string {
	addrs := make([]string, len(s.networks))
	for i, p := range s.networks {
		addrs[i] = p.Addr()
	}
	return "redis-cluster://" + strings.Join(addrs, ",")
}

package gateway

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/site"
)

// PeerFronts are headgate with one limit, nginx and HAProxy.
func PeerFronts() []site.Front {
	return frontsNamed(ProxyFronts(), oneLimitName, "nginx", "haproxy")
}

// frontsNamed returns the fronts with some names.
func frontsNamed(list []site.Front, names ...string) []site.Front {
	var found []site.Front
	for _, name := range names {
		for _, f := range list {
			if f.Name == name {
				found = append(found, f)
			}
		}
	}
	return found
}

func runLarge(ctx context.Context, b *harness.Bench) error {
	return runLoad(ctx, b, comparison{
		id: "large", title: "Passing responses of 10 kB on", fronts: PeerFronts(), requests: site.LargeRequests(),
	})
}

func runPosts(ctx context.Context, b *harness.Bench) error {
	return runLoad(ctx, b, comparison{
		id: "posts", title: "Passing requests of 10 kB on", fronts: PeerFronts(), requests: site.PostRequests(),
	})
}

func runNewConnections(ctx context.Context, b *harness.Bench) error {
	return runLoad(ctx, b, comparison{
		id: "new-connections", title: "Passing requests on, each on a new connection", fronts: PeerFronts(),
		requests: site.ClosingRequests(),
	})
}

func runTLS(ctx context.Context, b *harness.Bench) error {
	return runLoad(ctx, b, comparison{
		id: "tls", title: "Passing requests on over TLS", fronts: HTTP2Fronts(), requests: site.LoadRequests(), secure: true,
	})
}

// loggingName and nginxLoggingName are fronts that log every request.
const (
	loggingName      = "headgate-log"
	nginxLoggingName = "nginx-log"
)

// LoggingFronts are servers with and without an access log of every request, in a file.
func LoggingFronts() []site.Front {
	return append(frontsNamed(ProxyFronts(), oneLimitName, "nginx"),
		site.Front{
			Name: loggingName, Title: "**headgate** with an access log", Role: harness.Ours,
			Open: openHeadgateWith(rulesOfWhichOneApplies, "gateway: { access_log: { every: 1, per_second: 1000000 } }\n"),
		},
		site.Front{
			Name: nginxLoggingName, Title: "nginx with an access log", Role: harness.Peer, Program: "nginx",
			Open: openNginxLogging,
		})
}

func runAccessLog(ctx context.Context, b *harness.Bench) error {
	return runLoad(ctx, b, comparison{
		id: "access-log", title: "Passing requests on, with and without an access log", fronts: LoggingFronts(),
		requests: site.LoadRequests(),
	})
}

// redisName is the gateway whose limits are counted in Redis.
const redisName = "headgate-redis"

// The numbers of connections between which throughput must hardly fall, and the largest one.
const (
	someConnections = 100
	manyConnections = 1000
	mostConnections = 4000
)

// ConnectionFronts are the servers that are measured with different numbers of connections.
func ConnectionFronts() []site.Front {
	const config = "gateway: { max_conns_per_address: off }\n"
	fronts := frontsNamed(ProxyFronts(), oneLimitName, "nginx", "haproxy")
	fronts[0].Open = openHeadgateWith(rulesOfWhichOneApplies, config)
	return append(fronts, site.Front{
		Name: redisName, Role: harness.Ours,
		Title: fmt.Sprintf("**headgate**, %d rules, of which one applies and is counted in Redis", RuleCount),
		Open: func(ctx context.Context, s *site.Site) (site.RunningServer, error) {
			address, err := openRedis(ctx, s)
			if err != nil {
				return site.RunningServer{}, err
			}
			return openHeadgateWith(rulesByClient, config, "--store", "redis://"+address)(ctx, s)
		},
	})
}

// rulesByClient are rules of which one applies to a request. It limits each client.
func rulesByClient() string {
	return "rules:\n  - { id: each-client, key: [api_key], limits: [90000/s] }\n" + otherRules(1)
}

// openRedis starts Redis on the core of the load, and returns its address.
func openRedis(ctx context.Context, s *site.Site) (string, error) {
	path, err := site.Program("redis-server")
	if err != nil {
		return "", err
	}
	server, err := s.StartServerOn(ctx, s.LoadCore, func(address string) (*exec.Cmd, error) {
		port := address[len("127.0.0.1:"):]
		return exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", s.Dir), nil
	})
	return server.Address, err
}

func runConnections(ctx context.Context, b *harness.Bench) error {
	return runLoad(ctx, b, comparison{
		id: "connections", title: "Passing requests on", fronts: ConnectionFronts(), requests: site.LoadRequests(),
		connections: []int{someConnections, manyConnections, mostConnections}, divide: 20,
	})
}

// steadyRate is the rate of requests in the scenario in which the servers are mostly idle.
const steadyRate = 5000

// runSteady compares the CPU time of a request at a constant, low rate.
func runSteady(ctx context.Context, b *harness.Bench) error {
	s, err := site.OpenSite(ctx, b)
	if err != nil {
		return err
	}
	defer s.Close()
	fronts, err := s.OpenAll(ctx, PeerFronts(), func(name string) { b.Progress.At(0, "steady, opening", name) })
	if err != nil {
		return err
	}
	table := harness.PaceTable{Rate: steadyRate, Connections: s.Connections}
	for _, f := range fronts {
		table.Rows = append(table.Rows, harness.PaceRow{Contender: f.Name, Title: f.Title, Role: f.Role})
	}
	b.Progress.At(0.1, "steady, by turns", "")
	const warming = 1
	err = paceInto(ctx, s, &table, fronts, warming, site.PaceOrder{
		Connections: s.Connections, Rate: steadyRate, Windows: warming + b.Sizes.GatewayRounds*noiseWindows,
		Length: b.Sizes.NoiseLength,
	})
	if err != nil {
		return err
	}
	b.Results.Steady = &table
	return nil
}

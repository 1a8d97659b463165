package scenario

import (
	"os"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/accesslogs"
)

// A Scenario describes a simulation. Parse returns one.
type Scenario struct {
	// Name is the title of the results.
	Name string `field:"name"`
	// Description tells readers what the scenario shows.
	Description string `field:"description"`
	// Seed determines everything random. A file without it has the seed 1.
	Seed int `field:"seed"`
	// Duration is the simulated time.
	Duration time.Duration `field:"duration"`
	// Nodes is the number of nodes at the start, in each region if there are several. Default 1.
	Nodes int `field:"nodes"`
	// Limits are the limits of each client. All must allow a request.
	Limits []headgate.Limit `field:"limits"`
	// Algorithms are the algorithms to compare. Each replaces the algorithm of all limits. Default: the algorithms of the
	// limits.
	Algorithms []headgate.Algorithm `field:"algorithms"`
	// Modes are the ways to share counters to compare. Default local.
	Modes []rules.Consistency `field:"modes"`
	// OnFailure is the policy while nodes cannot reach the store. Default open.
	OnFailure headgate.Policy `field:"on_failure"`
	// JudgeBy is the algorithm by which decisions are judged. Default: the algorithm of the limit. For sliding-window and
	// sliding-buckets the default is sliding-log, because they approximate it.
	JudgeBy *headgate.Algorithm `field:"judge_by"`
	// Balance determines the node of each request. Default RoundRobin.
	Balance Balance `field:"balance"`
	// Traffic are the sources of requests.
	Traffic []Source `field:"traffic"`
	// Network is the network between nodes, and between nodes and Redis.
	Network Network `field:"network"`
	// Redis is the shared store of the modes exact, lease and async.
	Redis Redis `field:"redis"`
	// LeaseTTL is the time in which a node may use the units of a lease. Default 100 ms.
	LeaseTTL time.Duration `field:"lease_ttl"`
	// SyncInterval is the time between two exchanges of counters in the modes async and gossip. Default: the default of
	// the mode.
	SyncInterval time.Duration `field:"sync_interval"`
	// ClockSkew is the maximum time by which the clock of a node is ahead or behind. Default 0.
	ClockSkew time.Duration `field:"clock_skew"`
	// Regions makes several regions share the limits (scope: global). Default one region.
	Regions *Regions `field:"regions"`
	// Faults happen during the simulation.
	Faults []Fault `field:"faults"`
	// SampleOneIn makes the simulation smaller: only one in this number of clients sends requests. The rates of sources
	// are divided by this number. The results are for these clients, and are not multiplied. Default 1: all clients.
	SampleOneIn int `field:"sample_one_in"`
	// Groups is the number of groups of clients and Redis servers. Groups are simulated at the same time, as if each had
	// its own nodes. Default 1.
	Groups int `field:"groups"`
}

// A Source sends requests of some clients.
type Source struct {
	// Name tells sources apart. Default "traffic".
	Name string `field:"name"`
	// Rate is the number of requests per second, on average over time.
	Rate Number `field:"rate"`
	// Pattern determines the times between requests. Default Poisson.
	Pattern Pattern `field:"pattern"`
	// Peak is the highest rate of the pattern diurnal, whose mean is Rate.
	Peak Number `field:"peak"`
	// Period is the length of a day of the pattern diurnal. Default the scenario's duration.
	Period time.Duration `field:"period"`
	// On and Off make the source alternately send for the time On and pause for the time Off. Rate applies while it
	// sends.
	On  time.Duration `field:"on"`
	Off time.Duration `field:"off"`
	// Clients is the number of clients. Default 1.
	Clients int `field:"clients"`
	// Zipf is the exponent, above 1, of a Zipf distribution: some clients send more than others. By default, all
	// clients send equally.
	Zipf Number `field:"zipf"`
	// ClientOn and ClientOff make each client alternately send for the time ClientOn and pause for the time ClientOff.
	// Each client pauses at different times.
	ClientOn  time.Duration `field:"client_on"`
	ClientOff time.Duration `field:"client_off"`
	// Cost is the number of units of a request. Default 1.
	Cost int `field:"cost"`
	// From and Until are the times when the source begins and ends. Default: the whole duration.
	From  time.Duration `field:"from"`
	Until time.Duration `field:"until"`
	// Prefix begins the names of the clients. Sources with the same prefix have the same clients. Default "client".
	Prefix string `field:"prefix"`
	// Region is the number, from 0, of the region that gets the requests. Default: all regions get requests.
	Region *int `field:"region"`
	// Retry describes how clients retry after a denial. By default they do not retry.
	Retry *Retry `field:"retry"`
	// Log is the path of an access log, relative to the scenario. The source then replays its requests instead of
	// generating requests.
	Log string `field:"log"`
	// LogFormat is the format of the log's lines. Default accesslogs.Auto.
	LogFormat accesslogs.Format `field:"log_format"`
	// LogKey is the attribute of a line whose value is the client. Default ip.
	LogKey string `field:"log_key"`
	// Speed makes the replay this many times faster than the log. Default 1.
	Speed Number `field:"speed"`
}

// A Retry describes how clients retry denied requests.
type Retry struct {
	// Attempts is the maximum number of attempts, including the first one. Default 3.
	Attempts int `field:"attempts"`
	// Wait is the time after which clients retry if they ignore Retry-After. Default 100 ms.
	Wait time.Duration `field:"wait"`
	// Honour makes clients wait for the time in Retry-After.
	Honour bool `field:"honour_retry_after"`
}

// A Network delays and loses messages. A message is a request or a response between a node and Redis, or a packet
// between nodes.
type Network struct {
	// Delay is the mean delay of a message. Default 250 µs.
	Delay *time.Duration `field:"delay"`
	// Distribution is that of delays. Default Exponential around a fixed half.
	Distribution Distribution `field:"distribution"`
	// Loss is the part of messages that are lost, in percent.
	Loss Percent `field:"loss"`
}

// Regions are regions, each with its own nodes and Redis. They exchange counters through the global store, which is
// another Redis with the same number of shards in the first region.
type Regions struct {
	// Count is the number of regions. The smallest is 2.
	Count int `field:"count"`
	// Delay is the mean delay of a message from one region to another. Default 40 ms.
	Delay *time.Duration `field:"delay"`
	// Distribution is that of these delays. Default Exponential around a fixed half.
	Distribution Distribution `field:"distribution"`
	// Loss is the part of the messages between regions that is lost, in percent.
	Loss Percent `field:"loss"`
	// SyncInterval is the time between two exchanges of counters between regions. Default 1 s.
	SyncInterval time.Duration `field:"sync_interval"`
}

// Redis is a Redis whose servers run the algorithms' steps.
type Redis struct {
	// Shards is the number of servers. Default 1.
	Shards int `field:"shards"`
	// Service is the time that a server needs for a call. Other calls wait meanwhile. Default 10 µs.
	Service time.Duration `field:"service"`
	// Deadline is the maximum time that a node waits for a response. Default 20 ms.
	Deadline time.Duration `field:"deadline"`
}

// A Fault disturbs the simulated system for a time.
type Fault struct {
	// Kind is the kind of the fault.
	Kind FaultKind `field:"kind"`
	// At is the time when the fault begins, and For is its duration. Default: until the end.
	At  time.Duration `field:"at"`
	For time.Duration `field:"for"`
	// Nodes are the numbers of the affected nodes, from 0. Nodes that have joined before have the next numbers. Default
	// all nodes.
	Nodes []int `field:"nodes"`
	// Regions are the numbers of the affected regions, from 0. Default all regions, or the first one for Join.
	Regions []int `field:"regions"`
	// Shard is the number of the affected Redis server. Default all servers.
	Shard *int `field:"shard"`
	// Global makes the fault affect the global store instead of the Redis of regions.
	Global bool `field:"global"`
	// Between makes the fault affect messages between regions instead of messages within regions.
	Between bool `field:"between_regions"`
	// Count is the number of nodes that join.
	Count int `field:"count"`
	// Delay is the mean delay of messages.
	Delay time.Duration `field:"delay"`
	// Loss is the part of messages that are lost, in percent.
	Loss Percent `field:"loss"`
	// By is the time by which a clock jumps forward, or back if it is negative.
	By Shift `field:"by"`
	// Keep makes a failover keep the data. By default, a failover loses the data.
	Keep bool `field:"keep_data"`
}

// HasFault reports whether the scenario has a fault of a kind.
func (s *Scenario) HasFault(kind FaultKind) bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool { return f.Kind == kind })
}

// Load reads and parses a scenario file.
func Load(path string) (*Scenario, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

const defaultSeed = 1

// Parse parses a scenario in YAML or JSON. The error is a *source.Error. It lists all problems with their lines.
func Parse(name string, data []byte) (*Scenario, error) {
	f, err := source.Read(name, data)
	if err != nil {
		return nil, err
	}
	s := &Scenario{Seed: defaultSeed}
	problems := append(newCodec().Decode(f, s), zeros(f.Root)...)
	if len(problems) == 0 {
		s.setDefaults(name)
		for _, p := range s.Validate() {
			p.Line, p.Column = f.Locate(p.Path)
			problems = append(problems, p)
		}
	}
	if err := f.Error(problems, 0, rules.ErrInvalid); err != nil {
		return nil, err
	}
	return s, nil
}

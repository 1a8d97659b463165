package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/stepstore"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/server/fleet/regiontotals"
	"github.com/headgate/headgate/server/fleet/sharednotes"
	"github.com/headgate/headgate/server/sim/scenario"
	"github.com/headgate/headgate/server/sim/virtual"
)

// callBytes and replyBytes are the approximate sizes of a script call and its reply, without the key.
const (
	callBytes  = 180
	replyBytes = 60
)

// maxWait is the duration of a call without a deadline if its request or response is lost.
const maxWait = 2 * time.Second

var (
	errLost      = errors.New("sim: no response from Redis")
	errMalformed = errors.New("sim: a malformed reply from Redis")
)

// A redisServer is one simulated Redis server. It runs the steps of the algorithms.
type redisServer struct {
	number    int // number of the server among the servers of all groups
	name      string
	region    int
	store     *stepstore.Store
	totals    *regiontotals.Store // the consumption that the nodes of the region have reported
	notes     *sharednotes.Store  // the notes that nodes exchange
	members   sharednotes.Members // the nodes of the region
	ahead     time.Duration       // its clock is ahead by this duration
	down      int                 // number of current faults that stop it
	failovers int                 // number of times that another server has taken its place
	sweepAt   int                 // number of keys at which the next sweep removes drained ones
	expireAt  int                 // number of keys with notes at which the next sweep removes expired ones
	busyUntil time.Duration
	busy      time.Duration
	calls     int64
}

// wipe deletes all data.
func (s *redisServer) wipe(w *world) {
	now := func() time.Time { return w.loop.Time().Add(s.ahead) }
	s.store, s.totals, s.notes = stepstore.New(now), regiontotals.New(now), sharednotes.New(s.replicationID())
	s.members = sharednotes.Members{}
}

// replace puts another server in place of s, with the same data or without data.
func (s *redisServer) replace(w *world, keepData bool) {
	s.failovers++
	if keepData {
		s.notes.Promote(s.replicationID())
		return
	}
	s.wipe(w)
}

// replicationID returns what INFO calls master_replid. It differs after a failover.
func (s *redisServer) replicationID() string {
	return fmt.Sprintf("%020x%020x", hashKey(s.name), s.failovers)
}

// newRedis returns the servers of all regions, one region after the other, and then the servers of the global store.
func newRedis(w *world) []*redisServer {
	regions, shards := w.scenario.CountRegions(), w.shards()
	if w.scenario.Regions != nil {
		regions++
	}
	servers := make([]*redisServer, regions*shards)
	for i := range servers {
		servers[i] = &redisServer{
			number: w.group*shards + i%shards, name: "redis-" + strconv.Itoa(w.group*len(servers)+i),
			region: i / shards % w.scenario.CountRegions(),
		}
		servers[i].wipe(w)
	}
	return servers
}

// callsPerSweep is the number of calls between two checks whether a server must sweep.
const callsPerSweep = 1 << 12

// sweep removes drained keys from time to time, as Redis does when they expire. It removes none if the scenario sets
// the clock of a server back, because some units would then not be drained any more.
func (s *redisServer) sweep(w *world) {
	if s.calls%callsPerSweep != 0 || s.store.Len() < s.sweepAt || w.scenario.HasFault(scenario.RedisClock) {
		return
	}
	s.store.DropNew()
	s.sweepAt = max(minSweep, 2*s.store.Len())
}

// expire removes expired notes from time to time, as Redis does.
func (s *redisServer) expire(now time.Time) {
	if s.notes.Len() < s.expireAt {
		return
	}
	s.notes.Expire(now)
	s.expireAt = max(minSweep, 2*s.notes.Len())
}

// hashKey hashes a key. The hash is the same on every machine.
func hashKey(key string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // never fails
	return h.Sum64()
}

// A redisClient is the connections of a node to the servers of a Redis.
type redisClient struct {
	world   *world
	node    *node
	servers []*redisServer
}

var (
	_ headgate.Limiter = (*redisClient)(nil)
	_ guard.Sharded    = (*redisClient)(nil)
	_ guard.Prober     = (*redisClient)(nil)
	_ guard.Granter    = (*redisClient)(nil)
)

func (c *redisClient) server(check *headgate.Check) *redisServer {
	key := check.Key
	if check.Owner != "" {
		key = check.Owner
	}
	return c.servers[hashKey(key)%uint64(len(c.servers))]
}

// call runs a function on a server after the delay of the request, and returns after the delay of the response. If the
// request or response is lost, it returns when the context ends.
func (c *redisClient) call(ctx context.Context, s *redisServer, bytes int, run func() error) error {
	if err := c.send(ctx, s, bytes+callBytes); err != nil {
		return err
	}
	if err := c.node.host.Sleep(ctx, s.serve(c.world, 1, c.world.scenario.Redis.Service)); err != nil {
		// The node no longer waits, but the server still runs the call.
		return errors.Join(err, run())
	}
	if s.down > 0 {
		return c.lost(ctx)
	}
	err := run()
	s.sweep(c.world)
	return cmp.Or(c.respond(ctx, s, replyBytes), err)
}

// pipeline makes several calls that are sent together. run runs them at a time of the server, and returns how long the
// server needs for them and the size of the replies. Apart from that, pipeline is like call.
func (c *redisClient) pipeline(
	ctx context.Context, s *redisServer, calls, bytes int, run func(now time.Time) (service time.Duration, replies int),
) error {
	if err := c.send(ctx, s, bytes); err != nil {
		return err
	}
	// Calls run in the order of their arrival, so they can run now, at the time at which their turn comes.
	turn := max(c.world.loop.Now(), s.busyUntil)
	service, replies := run(virtual.Epoch.Add(turn + s.ahead))
	if err := c.node.host.Sleep(ctx, s.serve(c.world, calls, service)); err != nil {
		return err
	}
	if s.down > 0 {
		return c.lost(ctx)
	}
	return c.respond(ctx, s, replies)
}

// eachPart calls run for each server that has a part, in its own goroutine, and waits for all of them.
func (c *redisClient) eachPart(parts [][]int, run func(server int, part []int)) {
	calling := 0
	for server, part := range parts {
		if len(part) == 0 {
			continue
		}
		calling++
		c.node.host.Go(func() {
			run(server, part)
			calling--
		})
	}
	c.node.host.Wait(func() bool { return calling == 0 })
}

// send returns when a request has arrived at a server. If the request is lost, send returns an error when the context
// ends.
func (c *redisClient) send(ctx context.Context, s *redisServer, bytes int) error {
	delay, arrives := c.world.networkTo(c.node, s).send(bytes)
	if err := c.node.host.Sleep(ctx, delay); err != nil {
		return err
	}
	if !arrives || s.down > 0 || !c.world.reaches(c.node, s) {
		return c.lost(ctx)
	}
	return nil
}

// respond returns when the response of a server has arrived. It is the reverse of send.
func (c *redisClient) respond(ctx context.Context, s *redisServer, bytes int) error {
	delay, arrives := c.world.networkTo(c.node, s).send(bytes)
	if err := c.node.host.Sleep(ctx, delay); err != nil {
		return err
	}
	if !arrives || !c.world.reaches(c.node, s) {
		return c.lost(ctx)
	}
	return nil
}

// serviceTime returns a time, in percent of the time that a server needs for a call that decides.
func (w *world) serviceTime(percent int) time.Duration {
	return w.scenario.Redis.Service * time.Duration(percent) / 100
}

// serve counts calls that have arrived, and returns the time until the server has run them.
func (s *redisServer) serve(w *world, calls int, service time.Duration) time.Duration {
	now := w.loop.Now()
	s.calls += int64(calls)
	w.result.countSeveral(now, &w.result.RedisCalls, seriesRedis, int64(calls))
	s.busyUntil = max(now, s.busyUntil) + service
	s.busy += service
	return s.busyUntil - now
}

// lost waits for the end of a call that gets no response.
func (c *redisClient) lost(ctx context.Context) error {
	if err := c.node.host.Sleep(ctx, maxWait); err != nil {
		return err
	}
	return errLost
}

// Shard implements guard.Sharded.
func (c *redisClient) Shard(check headgate.Check) string { return c.server(&check).name }

// Probe implements guard.Prober.
func (c *redisClient) Probe(ctx context.Context, shard string) error {
	for _, s := range c.servers {
		if s.name == shard {
			return c.call(ctx, s, 0, func() error { return nil })
		}
	}
	return errLost
}

// decide runs a function that decides a check on its server.
func (c *redisClient) decide(
	ctx context.Context, check *headgate.Check, run func(context.Context, *redisServer) (headgate.Decision, error),
) (d headgate.Decision, err error) {
	s := c.server(check)
	err = c.call(ctx, s, len(check.Key), func() (err error) {
		d, err = run(context.WithoutCancel(ctx), s)
		return err
	})
	if err != nil {
		return headgate.Decision{}, err
	}
	return d, nil
}

// Take implements headgate.Limiter.
func (c *redisClient) Take(ctx context.Context, check headgate.Check) (headgate.Decision, error) {
	return c.decide(ctx, &check, func(ctx context.Context, s *redisServer) (headgate.Decision, error) {
		d, err := s.store.Take(ctx, check)
		if c.world.bugs.loseUpdates && s.calls%4 == 0 && d.Allowed {
			err = errors.Join(err, s.store.Give(ctx, check, d.Receipt))
		}
		c.world.executed(d.Allowed, err)
		return d, err
	})
}

// TakeAll implements headgate.Limiter. All checks belong to one server, because guard sends a call for each
// shard.
func (c *redisClient) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	if len(checks) == 0 {
		return dst, nil
	}
	s, before := c.server(&checks[0]), len(dst)
	var decisions []headgate.Decision
	err := c.call(ctx, s, len(checks)*len(checks[0].Key), func() (err error) {
		decisions, err = s.store.TakeAll(context.WithoutCancel(ctx), checks, nil)
		if c.world.bugs.partialTakes && err == nil && !headgate.Allowed(decisions) {
			_, err = s.store.Take(context.WithoutCancel(ctx), checks[0])
		}
		c.world.executed(headgate.Allowed(decisions), err)
		return err
	})
	if err != nil {
		return dst[:before], err
	}
	return append(dst, decisions...), nil
}

// Peek implements headgate.Limiter.
func (c *redisClient) Peek(ctx context.Context, check headgate.Check) (headgate.Decision, error) {
	return c.decide(ctx, &check, func(ctx context.Context, s *redisServer) (headgate.Decision, error) {
		return s.store.Peek(ctx, check)
	})
}

// Charge implements headgate.Limiter.
func (c *redisClient) Charge(ctx context.Context, check headgate.Check) (headgate.Decision, error) {
	return c.decide(ctx, &check, func(ctx context.Context, s *redisServer) (headgate.Decision, error) {
		return s.store.Charge(ctx, check)
	})
}

// Grant implements guard.Granter.
func (c *redisClient) Grant(ctx context.Context, check headgate.Check, want, share int64) (headgate.Decision, error) {
	requested := c.world.loop.Now()
	return c.decide(ctx, &check, func(ctx context.Context, s *redisServer) (headgate.Decision, error) {
		d, err := s.store.Grant(ctx, check, want, share)
		c.world.granted(c.node, &check, d.Receipt.Units, requested)
		return d, err
	})
}

// Give implements headgate.Limiter.
func (c *redisClient) Give(ctx context.Context, check headgate.Check, r headgate.Receipt) error {
	s := c.server(&check)
	return c.call(ctx, s, len(check.Key), func() error {
		if c.world.returned != nil {
			c.world.returned(&check, r.Units)
		}
		return s.store.Give(context.WithoutCancel(ctx), check, r)
	})
}

// Renew implements headgate.Limiter.
func (c *redisClient) Renew(ctx context.Context, check headgate.Check, r headgate.Receipt) (held bool, err error) {
	s := c.server(&check)
	err = c.call(ctx, s, len(check.Key), func() (err error) {
		held, err = s.store.Renew(context.WithoutCancel(ctx), check, r)
		return err
	})
	return held && err == nil, err
}

// Reset implements headgate.Limiter.
func (c *redisClient) Reset(ctx context.Context, check headgate.Check) error {
	s := c.server(&check)
	return c.call(ctx, s, len(check.Key), func() error { return s.store.Reset(context.WithoutCancel(ctx), check) })
}

package sim

import (
	"context"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/fleetredis"
)

// The time that a server needs for a call of exchange.lua, in percent of the time of a call that decides: with one key
// and no note, for each further key, and for each note under the keys. The percentages were measured with Redis 7, for
// calls that decide in 10 µs.
const (
	exchangePercent     = 150
	exchangeKeyPercent  = 25
	exchangeNotePercent = 11
)

// An exchangeRedis is a node's access to the Redis servers through which nodes exchange notes.
type exchangeRedis struct {
	redisClient
	serverOf map[string]int // by the first key of a call
	values   []string       // of the replies to the latest calls
	starting bool           // the node starts
}

var _ fleetredis.ExchangeRedis = (*exchangeRedis)(nil)

// A clockSyncer is a limiter whose windows start by the clock of its exchange.
type clockSyncer interface {
	headgate.Limiter
	SyncClock(ctx context.Context) error
}

// startExchange creates a limiter that uses an exchange. It lets the limiter read the clock of the exchange, as a node
// does before it gets requests; here, this takes no time. author is the author of the node's notes.
func startExchange[L clockSyncer](
	w *world, n *node, author string, create func(fleet.Exchange) (L, error),
) (headgate.Limiter, error) {
	redis := w.newExchangeRedis(n)
	redis.starting = true
	x, err := w.newExchange(n, redis, author)
	if err != nil {
		return nil, err
	}
	limiter, err := create(x)
	if err != nil {
		return nil, err
	}
	_ = limiter.SyncClock(context.Background()) // if the server is unreachable, the limiter tries again later
	redis.starting = false
	return limiter, nil
}

func (w *world) newExchangeRedis(n *node) *exchangeRedis {
	return &exchangeRedis{redisClient: redisClient{w, n, w.exchangeServers()}, serverOf: make(map[string]int)}
}

// newExchange returns an exchange of a node.
func (w *world) newExchange(n *node, redis *exchangeRedis, author string) (fleet.Exchange, error) {
	x, err := fleetredis.NewExchangeOver(redis, fleetredis.ExchangeOptions{
		Author: author, Secret: fleetSecret, Rand: n.random.Uint64,
	})
	if err == nil && w.bugs.deafNewcomer && n.slot >= w.scenario.AllNodes() {
		hearsAt := w.loop.Now() + deafTime
		return &deafExchange{x, func() bool { return w.loop.Now() < hearsAt }}, nil
	}
	return x, err
}

// Prefix implements fleetredis.ExchangeRedis.
func (x *exchangeRedis) Prefix() string { return redisstore.DefaultPrefix }

// MalformedReply implements fleetredis.ExchangeRedis.
func (x *exchangeRedis) MalformedReply(string) error { return errMalformed }

// timeCall and timeReply are the sizes of a call of TIME and its reply.
const timeCall, timeReply = 14, 34

// Time implements fleetredis.ExchangeRedis.
func (x *exchangeRedis) Time(ctx context.Context) (at time.Time, err error) {
	s := x.servers[0]
	if x.starting {
		if s.down > 0 || !x.world.reaches(x.node, s) {
			return at, errLost
		}
		return x.world.loop.Time().Add(s.ahead), nil
	}
	err = x.pipeline(ctx, s, 1, timeCall, func(now time.Time) (time.Duration, int) {
		at = now
		return x.world.scenario.Redis.Service, timeReply
	})
	return at, err
}

// Run implements fleetredis.ExchangeRedis. The calls to one server are sent together, as redisstore does.
func (x *exchangeRedis) Run(ctx context.Context, calls ...redisstore.ScriptCall) []redisstore.ScriptReply {
	replies := make([]redisstore.ScriptReply, len(calls))
	x.values = x.values[:0]
	if len(x.servers) == 1 {
		x.runPart(ctx, x.servers[0], nil, calls, replies)
		return replies
	}
	parts := make([][]int, len(x.servers))
	for i := range calls {
		server := x.server(calls[i].Keys[0])
		parts[server] = append(parts[server], i)
	}
	x.eachPart(parts, func(server int, part []int) { x.runPart(ctx, x.servers[server], part, calls, replies) })
	return replies
}

// runPart makes the calls with the given indices, which go to one server. If part is nil, it makes all calls.
func (x *exchangeRedis) runPart(
	ctx context.Context, s *redisServer, part []int, calls []redisstore.ScriptCall, replies []redisstore.ScriptReply,
) {
	count := len(part)
	if part == nil {
		count = len(calls)
	}
	indexOf := func(i int) int {
		if part == nil {
			return i
		}
		return part[i]
	}
	bytes := 0
	for i := range count {
		bytes += callSize(&calls[indexOf(i)])
	}
	err := x.pipeline(ctx, s, count, bytes, func(now time.Time) (service time.Duration, size int) {
		s.expire(now)
		percent := 0
		for i := range count {
			c := &calls[indexOf(i)]
			start, notes := len(x.values), 0
			x.values, notes = s.notes.Run(x.values, c.Keys, c.Args, now)
			values := x.values[start:]
			replies[indexOf(i)].Values = values
			size += replySize(values)
			keys := len(c.Keys) - 1
			percent += exchangePercent + exchangeKeyPercent*(keys-1) + exchangeNotePercent*notes
		}
		return x.world.serviceTime(percent), size
	})
	if err != nil {
		for i := range count {
			replies[indexOf(i)] = redisstore.ScriptReply{Err: err}
		}
	}
}

// A RESP string is sent with its length, and a call with the name of the command and the hash of the script.
const (
	stringBytes = 7
	evalBytes   = 13 + 40 + 4*stringBytes
)

// callSize returns the number of bytes of a script call.
func callSize(c *redisstore.ScriptCall) int {
	size := evalBytes + stringBytes*(len(c.Keys)+len(c.Args))
	for _, list := range [][]string{c.Keys, c.Args} {
		for _, text := range list {
			size += len(text)
		}
	}
	return size
}

// replySize returns the number of bytes of the reply to a script call.
func replySize(values []string) int {
	size := stringBytes * (len(values) + 1)
	for _, text := range values {
		size += len(text)
	}
	return size
}

// server returns the number of the server of a key.
func (x *exchangeRedis) server(key string) int {
	server, ok := x.serverOf[key]
	if !ok {
		server = slotOf(key) * len(x.servers) / slots
		x.serverOf[key] = server
	}
	return server
}

// slots is the number of hash slots of a cluster.
const slots = 1 << 14

// slotOf returns the hash slot of a key that contains a tag in braces: the CRC16 of the tag.
func slotOf(key string) int {
	_, tag, _ := strings.Cut(key, "{")
	tag, _, _ = strings.Cut(tag, "}")
	var crc uint16
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			carry := crc >> 15
			crc = crc<<1 ^ carry*0x1021
		}
	}
	return int(crc) % slots
}

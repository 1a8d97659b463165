package sim

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/async"
	"github.com/headgate/headgate/server/fleet/fleetredis"
	"github.com/headgate/headgate/server/sim/scenario"
)

// redisUse is what nodes do to Redis in a second.
type redisUse struct{ calls, bytes, load float64 }

// TestSoakExchangesAreAsManyAsReal compares simulated nodes with nodes of the mode async that use a real Redis.
func TestSoakExchangesAreAsManyAsReal(t *testing.T) {
	if os.Getenv("HEADGATE_SOAK") != "1" {
		t.Skip("takes some seconds of real time: set HEADGATE_SOAK=1")
	}
	for _, c := range []struct {
		nodes, clients, rate int
		limit                string
	}{
		{1, 10_000, 1000, "10/s"},
		{1, 5, 750, "100/s"},
		{3, 200, 600, "20/s"},
	} {
		t.Run(fmt.Sprintf("%d nodes %d clients %d per second", c.nodes, c.clients, c.rate), func(t *testing.T) {
			const duration = 4 * time.Second
			s, err := scenario.Parse("real.yaml", []byte(fmt.Sprintf(`
duration: %v
nodes: %d
limits: [%s]
modes: [async]
network: { delay: 100us }
traffic: [{ rate: %d, clients: %d }]
`, duration, c.nodes, c.limit, c.rate, c.clients)))
			if err != nil {
				t.Fatal(err)
			}
			all, err := Run(t.Context(), s, Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := all.Results[0]
			got := redisUse{float64(r.RedisCalls) / duration.Seconds(), float64(r.BytesSent) / duration.Seconds(), r.RedisLoad}
			want := useRealRedis(t, c.nodes, c.clients, c.rate, c.limit, duration)
			t.Logf("simulated %.0f calls/s, %.0f bytes/s and load %.3f; real %.0f, %.0f and %.3f", got.calls, got.bytes, got.load,
				want.calls, want.bytes, want.load)
			if q := got.calls / want.calls; q < 0.75 || q > 1.25 {
				t.Errorf("simulated %.0f calls per second, real %.0f: want a difference of at most 25%%", got.calls, want.calls)
			}
			if q := got.bytes / want.bytes; q < 0.75 || q > 1.25 {
				t.Errorf("simulated %.0f bytes per second, real %.0f: want a difference of at most 25%%", got.bytes, want.bytes)
			}
		})
	}
}

// useRealRedis lets nodes decide requests for a time, and returns what they do to Redis meanwhile.
func useRealRedis(t *testing.T, nodes, clients, rate int, limit string, duration time.Duration) redisUse {
	t.Helper()
	server := redistest.Standalone(t, redistest.Options{})
	var limiters []*async.Limiter
	for i := range nodes {
		store, err := redisstore.Open(t.Context(), server.URL(), redisstore.Options{
			Secret: []byte("a secret that only tests know, 32"), Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		o := async.Options{Name: "node-" + strconv.Itoa(i)}
		x, err := fleetredis.NewExchange(store, fleetredis.ExchangeOptions{Author: o.Author(), Secret: fleetSecret})
		if err != nil {
			t.Fatal(err)
		}
		l, err := async.New(fleet.LedgerOptions{Secret: fleetSecret}, x, o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close(t.Context()) }()
		limiters = append(limiters, l)
	}
	before, start := figures(t, server), time.Now()
	parsed := headgate.MustParseLimit(limit)
	random := rand.New(rand.NewPCG(1, 1))
	var requests sync.WaitGroup
	sent := 0
	for elapsed := time.Duration(0); elapsed < duration; elapsed = time.Since(start) {
		for ; sent < int(elapsed.Seconds()*float64(rate)); sent++ {
			l, key := limiters[sent%nodes], "client-"+strconv.Itoa(random.IntN(clients))
			requests.Go(func() {
				if _, err := l.Take(t.Context(), headgate.Check{Key: key, Limit: parsed, Cost: 1}); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Millisecond)
	}
	elapsed := time.Since(start).Seconds()
	requests.Wait()
	after := figures(t, server)
	return redisUse{
		(after.calls - before.calls) / elapsed, (after.bytes - before.bytes) / elapsed, (after.load - before.load) / elapsed,
	}
}

// figures returns the calls of EVALSHA so far, the seconds that the server needed for them, and the bytes that the server has received and sent.
func figures(t *testing.T, server *redistest.Server) (u redisUse) {
	t.Helper()
	reply, err := server.Do("INFO", "all")
	if err != nil {
		t.Fatal(err)
	}
	value := func(line string) float64 {
		n, _ := strconv.ParseFloat(strings.TrimSpace(line), 64)
		return n
	}
	for line := range strings.SplitSeq(fmt.Sprint(reply), "\n") {
		name, rest, _ := strings.Cut(line, ":")
		switch name {
		case "cmdstat_evalsha":
			calls, rest, _ := strings.Cut(strings.TrimPrefix(rest, "calls="), ",")
			micros, _, _ := strings.Cut(strings.TrimPrefix(rest, "usec="), ",")
			u.calls, u.load = value(calls), value(micros)/1e6
		case "total_net_input_bytes", "total_net_output_bytes":
			u.bytes += value(rest)
		}
	}
	return u
}

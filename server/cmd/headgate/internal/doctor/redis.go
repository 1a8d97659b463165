package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
)

// pings is the number of calls by which the latency of a store is measured.
const pings = 20

// checkStores checks the stores of the counters.
func (r *run) checkStores(ctx context.Context) {
	c := r.config
	if c.Store == config.StoreMemory {
		r.ok("store", "memory: limits are counted on this node only, and start again when it restarts")
	} else {
		r.checkRedis(ctx, "store", c.Store)
	}
	if c.GlobalStore != "" {
		r.checkRedis(ctx, "global_store", c.GlobalStore)
	}
}

// checkRedis checks the servers at a URL: their versions, settings, clocks and latency.
func (r *run) checkRedis(ctx context.Context, check, url string) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	o := r.config.RedisOptions([]byte(rand.Text())) // without a secret, Open would store one in Redis
	o.Logger = slog.New(slog.DiscardHandler)
	store, err := redisstore.Open(ctx, url, o)
	if err != nil {
		r.problem(check, errorText(err), fixRedis(err))
		return
	}
	defer func() { _ = store.Close() }() // all calls have returned
	for _, w := range store.Warnings() {
		r.warn(check, w.Server+" "+w.Problem, w.Fix)
	}
	servers, err := store.Health(ctx)
	if err != nil {
		r.problem(check, err.Error(), fixRedis(err))
		return
	}
	for i := range servers {
		r.checkServer(check, &servers[i])
	}
	r.checkLatency(ctx, check, store)
}

// checkServer adds a result about one server.
func (r *run) checkServer(check string, s *redisstore.ShardHealth) {
	role := "replica"
	if s.Primary {
		role = "primary"
	}
	switch {
	case s.Err != nil:
		status := Warning // decisions need only the primary
		if s.Primary {
			status = Problem
		}
		r.add(Result{check, status, fmt.Sprintf("%s %s: %s", role, s.Server, errorText(s.Err)), fixRedis(s.Err)})
	case s.LinkDown:
		r.warn(check, "replica "+s.Server+" has lost its primary: a failover to it loses consumed units",
			"check its log, and the network between both")
	default:
		detail := fmt.Sprintf("%s %s: version %s, ping %v", role, s.Server, s.Version, s.Ping.Round(10*time.Microsecond))
		if s.Evicted > 0 {
			detail += fmt.Sprintf(", %d keys evicted since its start", s.Evicted)
		}
		r.ok(check, "%s", detail)
	}
}

// checkLatency compares the duration of calls with the deadline of decisions, and the clock of the store with the clock
// of this host.
func (r *run) checkLatency(ctx context.Context, check string, store *redisstore.Store) {
	times := make([]time.Duration, 0, pings)
	var skew time.Duration
	for range pings {
		before := r.Now()
		server, err := store.Time(ctx)
		took := r.Now().Sub(before)
		if err != nil {
			r.problem(check, errorText(err), fixRedis(err))
			return
		}
		if len(times) == 0 || took < slices.Min(times) {
			skew = server.Sub(before.Add(took / 2))
		}
		times = append(times, took)
	}
	slices.Sort(times)
	median, longest, deadline := times[pings/2], times[pings-1], r.config.Redis.Deadline
	detail := fmt.Sprintf("%d calls: median %v, longest %v, deadline of decisions %v; clock skew %v", pings,
		median.Round(10*time.Microsecond), longest.Round(10*time.Microsecond), deadline, skew.Round(time.Millisecond))
	fix := "use a store in the same data center, or raise redis.deadline; rules with consistency: lease need fewer calls"
	switch {
	case median >= deadline:
		r.problem(check, detail+": most decisions fall back to on_failure", fix)
	case longest >= deadline:
		r.warn(check, detail+": some decisions fall back to on_failure", fix)
	default:
		r.ok(check, "%s", detail)
	}
}

// errorText returns an error without its fix, which is shown separately.
func errorText(err error) string {
	var e *redisstore.ServerError
	if !errors.As(err, &e) {
		return err.Error()
	}
	text := e.Server + " " + e.Problem
	if e.Problem == "" {
		text = e.Server
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return strings.TrimSpace(text)
}

// fixRedis returns the fix for an error of a store.
func fixRedis(err error) string {
	var e *redisstore.ServerError
	if errors.As(err, &e) && e.Permanent && e.Fix != "" {
		return e.Fix
	}
	return "check that the server runs and that this host can reach it: redis-cli -u URL ping. " +
		"Until then, rules apply their on_failure policy"
}

package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/redisstore/internal/topology"
)

// A clockReading compares the clock of a server with that of this host.
type clockReading struct {
	known     bool
	skew      time.Duration // how far the server's clock is ahead of this host's
	tolerance time.Duration // the maximum error of skew
}

// checkClock reads the server's clock three times, and keeps the reading with the shortest round trip, which is the
// most precise. It warns if the clock differs too much from this host's.
func (r *serverReport) checkClock(ctx context.Context, server *topology.Server, b rueidis.Builder, clk clock.Clock) {
	c := &r.clock
	for range 3 {
		before := clk.Now()
		fields, err := server.Do(ctx, b.Time().Build()).AsStrSlice()
		took := clk.Since(before)
		now, ok := parseTime(fields)
		if err != nil || !ok {
			return
		}
		if tolerance := took / 2; !c.known || tolerance < c.tolerance {
			skew := now.Sub(before.Add(tolerance))
			*c = clockReading{known: true, skew: skew, tolerance: tolerance}
		}
	}
	if c.skew.Abs() > maxSkew+c.tolerance {
		direction := "behind"
		if c.skew > 0 {
			direction = "ahead of"
		}
		r.warn(fmt.Sprintf("has a clock that is %v %s that of this host: limits and times in decisions follow it",
			roundSkew(c.skew.Abs()), direction), "synchronize the clocks of both hosts, for example with NTP")
	}
}

// compareClocks returns a warning if the clocks of the primaries differ too much.
func compareClocks(reports []serverReport) []Warning {
	var slowest, fastest *serverReport
	for i := range reports {
		r := &reports[i]
		if !r.clock.known {
			continue
		}
		if slowest == nil || r.clock.skew < slowest.clock.skew {
			slowest = r
		}
		if fastest == nil || r.clock.skew > fastest.clock.skew {
			fastest = r
		}
	}
	if slowest == nil {
		return nil
	}
	skew := fastest.clock.skew - slowest.clock.skew
	if skew <= maxSkew+slowest.clock.tolerance+fastest.clock.tolerance {
		return nil
	}
	return []Warning{{
		slowest.server,
		fmt.Sprintf("has a clock that is %v behind that of %s: windows of its clients end later",
			roundSkew(skew), fastest.server),
		"synchronize the clocks of the servers, for example with NTP",
	}}
}

func roundSkew(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

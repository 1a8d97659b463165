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
	skew      time.Duration // how far the server is ahead
	tolerance time.Duration // how much the skew may be off
}

// readClock reads the server's clock three times, and keeps the reading with the shortest round trip.
func (r *serverReport) readClock(ctx context.Context, server *topology.Server, b rueidis.Builder, clk clock.Clock) {
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
		r.warn(fmt.Sprintf("has a clock that is %v %s that of this host: limits and times in decisions go by it",
			roundSkew(c.skew.Abs()), direction), "synchronize the clocks of both hosts, for example with NTP")
	}
}

// skewBetween compares the clocks of the primaries.
func skewBetween(reports []serverReport) []Warning {
	var first, last *serverReport
	for i := range reports {
		r := &reports[i]
		if !r.clock.known {
			continue
		}
		if first == nil || r.clock.skew < first.clock.skew {
			first = r
		}
		if last == nil || r.clock.skew > last.clock.skew {
			last = r
		}
	}
	if first == nil {
		return nil
	}
	skew := last.clock.skew - first.clock.skew
	if skew <= maxSkew+first.clock.tolerance+last.clock.tolerance {
		return nil
	}
	return []Warning{{
		first.server,
		fmt.Sprintf("has a clock that is %v behind that of %s: windows of its clients end later",
			roundSkew(skew), last.server),
		"synchronize the clocks of the servers, for example with NTP",
	}}
}

func roundSkew(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

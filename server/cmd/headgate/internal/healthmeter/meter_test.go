package healthmeter

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/telemetry"
)

// counters are Metrics of a test.
type counters struct {
	open, other         map[string]uint64
	unlimited, degraded uint64
}

func (c *counters) FailingOpen() (counts map[string]uint64, requests uint64) {
	return maps.Clone(c.open), c.unlimited
}
func (c *counters) OtherFallbacks() map[string]uint64 { return maps.Clone(c.other) }
func (c *counters) Degraded() uint64                  { return c.degraded }
func (*counters) StoreCalls() telemetry.Distribution  { return nil }
func (c *counters) add(rules map[string]uint64, n uint64) {
	c.unlimited, c.degraded = c.unlimited+n, c.degraded+n
	sum(c.open, rules)
}

func sum(to, from map[string]uint64) {
	for k, n := range from {
		to[k] += n
	}
}

func newCounters() *counters { return &counters{open: map[string]uint64{}, other: map[string]uint64{}} }

func text(s control.HealthStats, start time.Time) string {
	result := fmt.Sprintf("%.1f/s", s.UnlimitedPerSecond)
	for _, r := range s.FailingOpen {
		result += fmt.Sprintf(" %s %.1f", r.Rule, r.PerSecond)
	}
	if !s.UnlimitedSince.IsZero() {
		result += " since " + s.UnlimitedSince.Sub(start).String()
	}
	if !s.UnlimitedUntil.IsZero() {
		result += " until " + s.UnlimitedUntil.Sub(start).String()
	}
	return result
}

// A call that times out now and then is reported at once, without an open circuit, and so is the end.
func TestTimeoutsAreReportedUntilTheyEnd(t *testing.T) {
	start := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	var m Meter
	c := newCounters()
	now := start
	tick := func(requests uint64) Phase {
		now = now.Add(500 * time.Millisecond)
		if requests > 0 {
			c.add(map[string]uint64{"a": requests, "b": 1}, requests)
		}
		return m.Observe(c, false, now)
	}
	for range 10 {
		if got := tick(0); got != (Phase{}) {
			t.Fatalf("got %v without failures", got)
		}
	}
	if got := tick(1); got.Since != start.Add(5*time.Second) || got.Ended {
		t.Errorf("got %v after the first request", got)
	}
	if got, want := text(m.Stats(c, false, now), start), "1.0/s a 1.0 b 1.0 since 5s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for range 19 {
		tick(2)
	}
	if got, want := text(m.Stats(c, false, now), start), "3.9/s a 3.9 b 2.0 since 5s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := tick(0); got.Ended {
		t.Error("got the end after half a second")
	}
	if got := tick(0); !got.Ended {
		t.Error("got no end after a second without such requests")
	}
	if got, want := text(m.Stats(c, false, now), start), "4.0/s a 4.0 b 2.0 since 5s until 15s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := tick(1); got.Ended || got.Since != start.Add(5*time.Second) {
		t.Errorf("got %v, want the same failure again", got)
	}
	for range 21 {
		tick(0)
	}
	if got, want := text(m.Stats(c, false, now), start), "0.0/s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// One call in four seconds times out: after the second one, the failure goes on until there was none for eight seconds.
func TestRareTimeoutsAreOneFailure(t *testing.T) {
	start := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	var m Meter
	c := newCounters()
	got := ""
	for i := range 60 {
		if i%8 == 1 && i < 40 {
			c.add(map[string]uint64{"a": 1}, 1)
		}
		switch phase := m.Observe(c, false, start.Add(time.Duration(i)*500*time.Millisecond)); {
		case phase.Since.IsZero():
			got += "."
		case phase.Ended:
			got += "e"
		default:
			got += "f"
		}
	}
	const fails = "ffffffff"
	if want := ".ffeeeeee" + fails + fails + fails + fails + fails + "eeeee" + "......"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// When the store is reachable again, nothing is reported, and rates of the next failure begin again.
func TestOutageEndsWhenTheStoreIsReachable(t *testing.T) {
	start := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	var m Meter
	c := newCounters()
	m.Stats(c, false, start)
	c.add(map[string]uint64{"a": 50}, 50)
	c.other["strict"], c.degraded = 3, c.degraded+3
	got := m.Stats(c, true, start.Add(2*time.Second))
	if text := text(got, start); text != "25.0/s a 25.0 since 0s" || fmt.Sprint(got.OtherFallbacks, got.FailingOpenRules) != "[strict] 1" {
		t.Errorf("got %s, %v", text, got.OtherFallbacks)
	}
	c.add(map[string]uint64{"a": 9}, 9)
	if got := text(m.Stats(c, false, start.Add(3*time.Second)), start); got != "0.0/s" {
		t.Errorf("got %s after the outage", got)
	}
	c.add(map[string]uint64{"b": 4}, 4)
	if got, want := text(m.Stats(c, false, start.Add(5*time.Second)), start), "2.0/s b 2.0 since 3s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

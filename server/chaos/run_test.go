package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
)

// recoveryTime is how long after the end of a fault everything must work again.
const recoveryTime = 20 * time.Second

func (p *program) awaitListening() {
	await.NoError(p.t, p.name+" listens", func() error {
		c, err := net.DialTimeout("tcp", p.gateway, time.Second)
		if err == nil {
			_ = c.Close() // only to see that it listens
		}
		return err
	})
}

// An editor changes rules all the time, and remembers the changes that were acknowledged.
type editor struct {
	s     *system
	acked []string
}

func (e *editor) run(ctx context.Context) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprintf("edit-%d", i)
		rule := fmt.Sprintf(`{"id":%q,"when":{"path":"/edit/%d"},"limits":["1/s"]}`, id, i)
		if e.s.put(id, rule) == nil {
			e.acked = append(e.acked, id)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// TestChaos breaks a fleet at random for HEADGATE_CHAOS, such as 2m, as make chaos does. Throughout: no client of a rule
// that fails open sees an error; a rule that fails closed admits no more than its limit, plus a burst for each failover
// of Redis; no acknowledged rule is lost; everything has recovered at most recoveryTime after a fault.
func TestChaos(t *testing.T) {
	duration, err := time.ParseDuration(os.Getenv("HEADGATE_CHAOS"))
	if err != nil {
		t.Skip("set HEADGATE_CHAOS=2m, as make chaos does")
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("HEADGATE_CHAOS_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("HEADGATE_CHAOS_SEED=%d", seed)
	s := startSystem(t, buildWithMovableClock(t, "../.."))
	l, e := newLoad(s), &editor{s: s}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { l.run(ctx) })
	group.Go(func() { e.run(ctx) })
	line, losses := s.breakThings(rand.New(rand.NewPCG(seed, 0)), l.begin, duration)
	cancel()
	group.Wait()
	line.Seconds = l.line
	writeTimeline(t, line)
	checkLoad(t, l, losses)
	s.checkRules(e.acked)
}

// breakThings causes every kind of fault in random order, again and again, one at a time.
func (s *system) breakThings(random *rand.Rand, begin time.Time, duration time.Duration) (line *Timeline, losses int) {
	line = &Timeline{}
	for time.Since(begin) < duration {
		list := s.faults(random)
		for _, i := range random.Perm(len(list)) {
			if time.Since(begin) >= duration || s.t.Failed() {
				break
			}
			f := &list[i]
			done := Fault{Name: f.name, Begin: time.Since(begin)}
			f.begin()
			hold(time.Second + time.Duration(random.Int64N(int64(3*time.Second))))
			f.end()
			done.End = time.Since(begin)
			s.await("recovery from: "+f.name, s.healthy)
			done.Recovered = time.Since(begin)
			losses += f.losses
			line.Faults = append(line.Faults, done)
			took := done.Recovered - done.End
			s.t.Logf("%6.1fs %-28s %4.1fs, recovered after %4.1fs", done.Begin.Seconds(), f.name,
				(done.End - done.Begin).Seconds(), took.Seconds())
			if took > recoveryTime {
				s.t.Errorf("%s: recovered after %v, want %v", f.name, took, recoveryTime)
			}
		}
	}
	return line, losses
}

// hold lets a fault last.
func hold(d time.Duration) { <-time.After(d) }

func checkLoad(t *testing.T, l *load, losses int) {
	t.Helper()
	elapsed := time.Since(l.begin)
	sent := 0
	for _, second := range l.line {
		sent += second.Allowed + second.Denied + second.Refused + second.Overloaded + second.Violations
	}
	most := closedBurst*(1+losses) + int(elapsed.Seconds()*closedRate)
	t.Logf("%d requests, %d admitted by the rule that fails closed, at most %d; %d refused because of overload; "+
		"%d violations", sent, l.admitted, most, len(l.overloaded), len(l.violations))
	for _, refusal := range l.overloaded[:min(20, len(l.overloaded))] {
		t.Logf("overload %s", refusal)
	}
	if most := sent / 1000; len(l.overloaded) > most {
		t.Errorf("got %d of %d requests refused because of overload, want at most %d: the load is light", len(l.overloaded),
			sent, most)
	}
	if l.admitted > most {
		t.Errorf("got %d admitted, want at most %d", l.admitted, most)
	}
	if l.admitted == 0 || sent < int(elapsed.Seconds())*10 {
		t.Errorf("got %d requests and %d admitted: the load did not run", sent, l.admitted)
	}
	for _, v := range l.violations[:min(20, len(l.violations))] {
		t.Errorf("client error %s", v)
	}
}

// checkRules checks that the rules service and every node have all rules that were acknowledged.
func (s *system) checkRules(acked []string) {
	s.t.Helper()
	for _, id := range acked {
		if err := s.call("GET", "/v1/rules/"+id, "", nil); err != nil {
			s.t.Errorf("acknowledged rule is lost: %v", err)
		}
	}
	want := len(acked)
	for _, n := range s.nodes {
		await.NoError(s.t, n.name+" has all rules", func() error {
			var status struct{ Rules struct{ Count int } }
			if err := s.get("http://"+n.admin+"/readyz", &status); err != nil {
				return err
			}
			if status.Rules.Count < want {
				return fmt.Errorf("got %d rules, want at least %d", status.Rules.Count, want)
			}
			return nil
		})
	}
	s.t.Logf("%d acknowledged rules checked", len(acked))
}

func writeTimeline(t *testing.T, line *Timeline) {
	t.Helper()
	path := os.Getenv("HEADGATE_CHAOS_TIMELINE")
	if path == "" {
		return
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := line.WriteSVG(f); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

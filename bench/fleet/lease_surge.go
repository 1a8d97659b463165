package fleet

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/internal/redistest"
)

// A surgePhase is a part of the surge.
type surgePhase struct {
	name     string
	from, to float64 // requests a second
	lasting  time.Duration
}

func runLeaseSurge(ctx context.Context, b *harness.Bench) error {
	second := time.Second
	if b.Results.Quick {
		second = 50 * time.Millisecond
	}
	phases := []surgePhase{
		{"before", surgeFrom, surgeFrom, 3 * second},
		{"the surge", surgeFrom, surgeTo, second},
		{"after", surgeTo, surgeTo, 3 * second},
	}
	limit := headgate.PerSecond(surgeLimit)
	table := harness.FleetTable{
		Scenario: "lease-surge",
		Title: fmt.Sprintf("Leases: from %s to %s requests a second, limit %s", harness.Grouped(fmt.Sprint(surgeFrom)),
			harness.Grouped(fmt.Sprint(surgeTo)), limit),
		Columns: []string{"", "asked", "admitted", "p50 admitted", "p99 admitted", "p99.9 admitted"},
	}
	err := withNodes(ctx, 1, func(_ *redistest.Server, nodes []*leaseNode) error {
		b.Progress.At(0, "lease, surge", "")
		began := time.Now()
		got, err := surge(nodes[0].lease, limit, phases)
		if err != nil {
			return err
		}
		most := float64(limit.Capacity()) + float64(limit.Count)*time.Since(began).Seconds()
		var admitted int64
		for i, p := range phases {
			h := &got[i].admitted
			admitted += h.Total
			table.Rows = append(table.Rows, []string{
				p.name, harness.Grouped(fmt.Sprint(got[i].asked)), harness.Grouped(fmt.Sprint(h.Total)),
				harness.HumanNs(float64(h.Quantile(0.5))) + " ns", harness.HumanNs(float64(h.Quantile(0.99))) +
					" ns", harness.HumanNs(float64(h.Quantile(0.999))) + " ns",
			})
		}
		before := got[0].admitted.Quantile(0.99)
		worst := max(got[1].admitted.Quantile(0.99), got[2].admitted.Quantile(0.99))
		flat := int64(max(2*float64(before), 20_000)) // 20 µs is nothing to anybody
		table.Bars = append(table.Bars,
			harness.JudgedBar("lease, surge, admitted", "≤ burst + rate·t", fmt.Sprintf("%.2f %%", 100*float64(admitted)/most),
				float64(admitted) <= most),
			harness.JudgedBar("lease, surge, p99 of admitted", "flat: ≤ 2 × before, or 20 µs",
				fmt.Sprintf("%d ns before, %d ns at worst", before, worst), worst <= flat))
		return nil
	})
	b.Results.Fleet = append(b.Results.Fleet, table)
	return err
}

// A surgeCount counts the results of the requests of a phase.
type surgeCount struct {
	asked    int64
	admitted harness.Histogram
}

func (n *surgeCount) merge(other *surgeCount) {
	n.asked += other.asked
	n.admitted.Merge(&other.admitted)
}

// surge lets two goroutines send requests at even intervals, at the rates of the phases.
func surge(l headgate.Limiter, limit headgate.Limit, phases []surgePhase) ([]surgeCount, error) {
	const askers = 2
	all := make([]surgeCount, len(phases))
	parts := make([][]surgeCount, askers)
	failed := make(chan error, askers)
	var group sync.WaitGroup
	for a := range askers {
		parts[a] = make([]surgeCount, len(phases))
		group.Go(func() {
			for i, p := range phases {
				if err := p.run(l, limit, askers, &parts[a][i]); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failed)
	for i := range all {
		for a := range parts {
			all[i].merge(&parts[a][i])
		}
	}
	return all, <-failed
}

func (p surgePhase) run(l headgate.Limiter, limit headgate.Limit, askers float64, n *surgeCount) error {
	ctx := context.Background()
	c := headgate.Check{Key: "surge", Limit: limit, Cost: 1}
	began := time.Now()
	length := p.lasting.Seconds()
	for {
		t := math.Min(time.Since(began).Seconds(), length)
		due := int64((p.from*t + (p.to-p.from)*t*t/(2*length)) / askers)
		for ; n.asked < due; n.asked++ {
			from := time.Now()
			d, err := l.Take(ctx, c)
			if err != nil {
				return err
			}
			if d.Allowed {
				n.admitted.Record(int64(time.Since(from)))
			}
		}
		if t >= length {
			return nil
		}
		time.Sleep(50 * time.Microsecond)
	}
}

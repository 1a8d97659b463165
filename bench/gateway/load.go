package gateway

import (
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/site"
)

// NewLoadRow returns the row of a front from its measurements, round by round.
func NewLoadRow(f site.Front, loads []site.Load) harness.LoadRow {
	row := harness.LoadRow{Contender: f.Name, Title: f.Title, Role: f.Role}
	var cpu, busy, loadBusy, p99 []float64
	for _, l := range loads {
		row.Rates = append(row.Rates, l.Rate)
		cpu = append(cpu, l.CPU.Seconds()*1e6/float64(l.Requests))
		p99 = append(p99, float64(l.P99))
		busy, loadBusy = append(busy, l.CPU.Seconds()/l.Took.Seconds()), append(loadBusy, l.LoadBusy)
	}
	row.Rate = harness.SpreadOf(row.Rates)
	row.CPU, row.Busy, row.LoadBusy = harness.MedianOf(cpu), harness.MedianOf(busy), harness.MedianOf(loadBusy)
	row.P99 = harness.MedianOf(p99)
	return row
}

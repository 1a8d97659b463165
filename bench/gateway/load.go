package gateway

import (
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/site"
)

// NewLoadRow returns the row of a front from its measurements, round by round.
func NewLoadRow(f site.Front, loads []site.Load) harness.LoadRow {
	row := harness.LoadRow{Contender: f.Name, Title: f.Title, Role: f.Role}
	var cpu, busy, loadBusy []float64
	for _, l := range loads {
		row.Rates = append(row.Rates, l.Rate)
		cpu = append(cpu, l.CPU.Seconds()*1e6/float64(l.Requests))
		busy, loadBusy = append(busy, l.CPU.Seconds()/l.Took.Seconds()), append(loadBusy, l.LoadBusy)
	}
	row.Rate = harness.SpreadOf(row.Rates)
	row.CPU, row.Busy, row.LoadBusy = harness.MedianOf(cpu), harness.MedianOf(busy), harness.MedianOf(loadBusy)
	return row
}

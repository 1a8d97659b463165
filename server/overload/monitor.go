package overload

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/clock"
)

// A Stage determines which work is stopped. Each stage includes the earlier stages.
type Stage uint32

// The stages, in their order. The comments say which work each stage stops.
const (
	Nothing  Stage = iota
	Console        // the console and the documentation
	Explain        // explanations of decisions, and what-if
	Detail         // statistics of clients, and the log of decisions
	Requests       // a share of the requests that rules limit
	numStages
)

var stageNames = [numStages]string{"nothing", "console", "explain", "detail", "requests"}

// String returns the name of the stage, as in labels of metrics.
func (s Stage) String() string {
	if s < numStages {
		return stageNames[s]
	}
	return "unknown"
}

// waits has the wait for a core at which each stage begins.
var waits = [numStages]time.Duration{
	Console: 50 * time.Millisecond, Explain: 100 * time.Millisecond, Detail: 200 * time.Millisecond,
	Requests: 500 * time.Millisecond,
}

const (
	// interval is the time between two measurements of the load.
	interval = 100 * time.Millisecond
	// highIntervals is the number of consecutive intervals with a long wait after which a stage begins. A single long
	// wait may be caused by a pause of the process.
	highIntervals = 3
	// lowIntervals is the number of consecutive intervals with less than half of a stage's wait after which the stage
	// ends.
	lowIntervals = 10
	// shareStep is the change of the share of refused requests per interval. maxShare is the maximum of the share. It is
	// below 1, because some requests must be decided so that the wait still shows the load.
	shareStep = 0.05
	maxShare  = 0.95
)

// Options are the parameters of New. The zero value is ready to use.
type Options struct {
	// Wait returns how long goroutines have waited for a core since its last call. Default SchedulerWait.
	Wait func() time.Duration
	// Busy returns the share of the cores' time that this process has used since its last call. Default CPUShare.
	Busy func() float64
	// Measured is called in each interval with the result of Busy. If it is nil, Busy is not called. Default nil.
	Measured func(busy float64)
	// Random returns a random number from 0 to 1. Default math/rand/v2.
	Random func() float64
	// Clock is the clock of Run. Default clock.System.
	Clock clock.Clock
	// Logger logs the beginning and the end of stages. Default slog.Default.
	Logger *slog.Logger
}

// A Monitor measures the load of this process. It is safe for concurrent use. Create one with New.
type Monitor struct {
	options Options

	stage atomic.Uint32
	share atomic.Uint64 // share of requests that are refused, in 1/shareUnits
	wait  atomic.Int64
	shed  [numStages]atomic.Int64

	// Only Run uses the following fields.
	high, low int     // consecutive intervals with a long and a short wait
	current   float64 // the share of requests that are refused, from 0 to maxShare
}

// shareUnits is the value of Monitor.share that means all requests.
const shareUnits = 1 << 20

// New returns a Monitor. It sheds nothing until Run is called.
func New(o Options) *Monitor {
	if o.Wait == nil {
		o.Wait = SchedulerWait()
	}
	if o.Busy == nil {
		o.Busy = CPUShare()
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Monitor{options: o}
}

// Run measures the load until ctx ends.
func (m *Monitor) Run(ctx context.Context) {
	for clock.Sleep(ctx, m.options.Clock, interval) == nil {
		m.measure()
	}
}

// measure sets the stage after an interval.
func (m *Monitor) measure() {
	wait := m.options.Wait()
	m.wait.Store(int64(wait))
	if m.options.Measured != nil {
		m.options.Measured(m.options.Busy())
	}
	stage := Stage(m.stage.Load())
	m.high = nextCount(m.high, stage < Requests && wait >= waits[stage+1])
	m.low = nextCount(m.low, stage > Nothing && wait < waits[stage]/2)
	switch {
	case m.high >= highIntervals:
		stage++
		m.high = 0
		m.stage.Store(uint32(stage))
		m.options.Logger.Warn("overloaded, shedding work", "stage", stage.String(), "wait", wait.String())
	case m.low >= lowIntervals:
		m.options.Logger.Info("less load, no longer shedding work", "stage", stage.String(), "wait", wait.String())
		stage--
		m.low = 0
		m.stage.Store(uint32(stage))
	}
	switch {
	case stage == Requests && wait >= waits[Requests]:
		m.current = min(maxShare, m.current+shareStep)
	case stage < Requests || wait < waits[Requests]/2:
		m.current = max(0, m.current-shareStep)
	}
	m.share.Store(uint64(m.current * shareUnits))
}

// nextCount returns the number of consecutive intervals in which a condition holds. n is the previous number.
func nextCount(n int, holds bool) int {
	if holds {
		return n + 1
	}
	return 0
}

// Sheds reports whether the work of a stage must be stopped now. If so, it counts the work as shed.
func (m *Monitor) Sheds(s Stage) bool {
	if Stage(m.stage.Load()) < s {
		return false
	}
	m.shed[s].Add(1)
	return true
}

// Refuses decides randomly whether a request must be refused, and counts refused requests. It is for
// engine.Config.TooBusy.
func (m *Monitor) Refuses() bool {
	share := m.share.Load()
	if share == 0 || m.options.Random()*shareUnits >= float64(share) {
		return false
	}
	m.shed[Requests].Add(1)
	return true
}

// Stats are figures of a Monitor.
type Stats struct {
	Stage Stage
	// Wait is the time for which goroutines waited for a core in the last interval.
	Wait time.Duration
	// Share is the share of requests that are refused.
	Share float64
	// Shed counts the pieces of work that were not done, by stage.
	Shed map[Stage]int64
}

// Stats returns the figures.
func (m *Monitor) Stats() Stats {
	s := Stats{
		Stage: Stage(m.stage.Load()), Wait: time.Duration(m.wait.Load()), Share: float64(m.share.Load()) / shareUnits,
		Shed: make(map[Stage]int64, numStages),
	}
	for stage := Console; stage < numStages; stage++ {
		s.Shed[stage] = m.shed[stage].Load()
	}
	return s
}

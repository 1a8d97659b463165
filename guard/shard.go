package guard

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/headgate/headgate"
)

// When a circuit opens: after so many failures in a row, or when that share of the calls of the last window failed.
const (
	tripInRow  = 5
	tripCalls  = 20
	tripWindow = 2 * time.Second
)

// A shard is what fails as one: a server, or the whole store if it does not tell.
type shard struct {
	name    string
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]

	// down is the state of the circuit for everybody but the prober: the breaker's own turns half-open by itself, and
	// would let a caller through.
	down   atomic.Bool
	opened atomic.Pointer[chan struct{}] // closed while it is down

	since     atomic.Int64 // when that last changed, in ns since 1970
	nextProbe atomic.Int64 // likewise
	warned    atomic.Int64 // when an event last said that it fails, likewise
	degraded  atomic.Int64 // decisions since it went down
	inRow     atomic.Int64 // failures since the last success; the breaker's own count forgets those of its window
	took      atomic.Int64 // how long answers take of late, in ns; 0 if there was none yet
	answered  atomic.Bool  // it did at least once
	backAt    atomic.Int64 // when it last came back, in ns since 1970
	used      atomic.Bool  // somebody asked for it since the last look

	// What the breaker need not know. See leave.
	troubled atomic.Bool
	failedAt atomic.Int64 // in ns since the shard was made
	goneWell atomic.Int64 // calls since the breaker was last told of any
	wellAt   atomic.Int64 // the last of these, likewise
	made     time.Time

	admission admission
	failed    atomic.Pointer[failure]
	refusal   atomic.Pointer[refusal] // nil while it decides what it is asked
}

// A failure is what last went wrong.
type failure struct {
	check headgate.Check
	err   error
}

// Outcomes that the breaker is told of.
var (
	errFailed = errors.New("failed")
	errNoMind = errors.New("says nothing about the store")
)

func (g *Guard) newShard(name string) *shard {
	s := &shard{name: name, made: time.Now()}
	opened := make(chan struct{})
	s.opened.Store(&opened)
	s.since.Store(time.Now().UnixNano())
	s.admission.limit.Store(fewestAdmitted)
	s.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         name,
		MaxRequests:  1,
		Interval:     tripWindow,
		BucketPeriod: tripWindow / 10,
		Timeout:      1, // the prober decides when to try
		ReadyToTrip: func(c gobreaker.Counts) bool {
			done := c.TotalFailures + c.TotalSuccesses
			return s.inRow.Load() >= tripInRow || done >= tripCalls && 2*c.TotalFailures >= done
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errNoMind) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case from == gobreaker.StateClosed: // it opens
				g.goDown(s)
			case to == gobreaker.StateClosed:
				g.comeUp(s)
			}
		},
	})
	return s
}

// goDown is called with the breaker locked.
func (g *Guard) goDown(s *shard) {
	now := time.Now()
	wait := firstProbe
	if now.UnixNano()-s.backAt.Load() < int64(time.Second) {
		wait = lastProbe // probes pass and calls fail
	}
	s.since.Store(now.UnixNano())
	s.nextProbe.Store(now.Add(wait).UnixNano())
	s.degraded.Store(0)
	s.used.Store(true)
	s.down.Store(true)
	close(*s.opened.Load())
	s.admission.dismiss(cannotAsk)
	g.tell(Event{Kind: Opened, Shard: s.name, Err: s.lastErr(), Started: !s.answered.Load()})
	g.goProbe(s, wait)
}

// comeUp is called with the breaker locked.
func (g *Guard) comeUp(s *shard) {
	now := time.Now()
	down := now.Sub(time.Unix(0, s.since.Load()))
	opened := make(chan struct{})
	s.opened.Store(&opened)
	s.since.Store(now.UnixNano())
	s.backAt.Store(now.UnixNano())
	s.inRow.Store(0)
	s.down.Store(false)
	s.answered.Store(true)
	g.tell(Event{Kind: Recovered, Shard: s.name, Down: down, Degraded: s.degraded.Load()})
}

// A leave is leave to call a shard.
//
// The breaker has a lock, and a goroutine that is preempted while it holds the lock would block all others. So the breaker is
// not used while calls succeed; it gets the number of successful calls when one fails. From then on it sees every call, until
// none has failed for as long as it remembers.
type leave struct {
	done  func(error) // the breaker's; nil if it was not asked
	since int64       // the shard has been up
}

// allow asks for leave to call the shard. What came of the call must be told.
func (s *shard) allow() (leave, bool) {
	l := leave{since: s.since.Load()}
	if s.down.Load() {
		return l, false
	}
	if !s.troubled.Load() {
		return l, true
	}
	var ok bool
	l.done, ok = s.askBreaker()
	return l, ok
}

// maxGoneWell bounds how many calls that went well the breaker is told of at once.
const maxGoneWell = 256

// told tells the breaker, if it is to know, what has come of a call at a time.
func (s *shard) told(l leave, outcome error, at time.Time) {
	now, broke := int64(at.Sub(s.made)), errors.Is(outcome, errFailed)
	if broke {
		s.failedAt.Store(now)
	}
	switch {
	case l.done != nil:
		l.done(outcome)
		if outcome == nil && now-s.failedAt.Load() > int64(tripWindow) {
			s.troubled.Store(false)
		}
	case outcome == nil:
		s.goneWell.Add(1)
		s.wellAt.Store(now)
	case broke && !s.down.Load() && s.since.Load() == l.since: // or else it has gone down meanwhile, for as good a reason
		s.troubled.Store(true)
		well := s.goneWell.Swap(0)
		if now-s.wellAt.Load() > int64(tripWindow) {
			well = 0
		}
		for range min(well, maxGoneWell) {
			s.tellBreaker(nil)
		}
		s.tellBreaker(errFailed)
	}
}

// tellBreaker tells of a call that the breaker was not asked for.
func (s *shard) tellBreaker(outcome error) {
	if done, ok := s.askBreaker(); ok {
		done(outcome)
	}
}

func (s *shard) askBreaker() (done func(error), ok bool) {
	done, err := s.breaker.Allow()
	if err != nil {
		return nil, false
	}
	if s.down.Load() { // it went down just now, and this may be the leave that is meant for the prober
		done(errNoMind)
		return nil, false
	}
	return done, true
}

// blame notes a failure.
func (s *shard) blame(c *headgate.Check, err error) {
	s.inRow.Add(1)
	s.failed.Store(&failure{check: *c, err: err})
}

// praise notes an answer, and how long it took.
func (s *shard) praise(took time.Duration) {
	old := s.took.Load()
	if old == 0 {
		old = int64(took)
	}
	s.took.Store(max(1, old+(int64(took)-old)/8)) // two at once may lose one, which does no harm
	if s.inRow.Load() != 0 {
		s.inRow.Store(0)
	}
	if !s.answered.Load() {
		s.answered.Store(true)
	}
}

func (s *shard) lastErr() error {
	if f := s.failed.Load(); f != nil {
		return f.err
	}
	return nil
}

// warn tells, once a second, that the shard fails.
func (g *Guard) warn(s *shard, err error) {
	now, last := time.Now().UnixNano(), s.warned.Load()
	if now-last < int64(time.Second) || !s.warned.CompareAndSwap(last, now) {
		return
	}
	g.tell(Event{Kind: Failing, Shard: s.name, Err: err})
}

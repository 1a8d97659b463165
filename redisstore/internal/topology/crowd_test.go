package topology

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/racing"
)

// A crowd is a number of callers that call repeatedly, with a deadline and a pause.
type crowd struct {
	running sync.WaitGroup
	stop    chan struct{}

	deadline time.Duration

	mu    sync.Mutex
	times []time.Duration // of calls that failed
	fails map[string]int

	calls, good atomic.Int64
	latestGood  atomic.Int64 // in ns
}

const (
	crowdDeadline = 20 * time.Millisecond
	// patience is the deadline of callers that must not be affected: long enough for a busy machine, and shorter than an
	// outage.
	patience = 1500 * time.Millisecond
)

func newCrowd(callers int, call func(ctx context.Context, caller int) error) *crowd {
	return newCrowdWithin(crowdDeadline, callers, call)
}

func newCrowdWithin(deadline time.Duration, callers int, call func(ctx context.Context, caller int) error) *crowd {
	c := &crowd{deadline: deadline, stop: make(chan struct{}), fails: make(map[string]int)}
	for i := range callers {
		c.running.Go(func() {
			for {
				select {
				case <-c.stop:
					return
				default:
				}
				c.call(i, call)
				time.Sleep(rand.N(time.Duration(callers) * gap()))
			}
		})
	}
	return c
}

func (c *crowd) call(i int, call func(ctx context.Context, caller int) error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.deadline)
	defer cancel()
	begin := time.Now()
	err := call(ctx, i)
	took := time.Since(begin)
	c.calls.Add(1)
	if err == nil {
		c.good.Add(1)
		c.latestGood.Store(time.Now().UnixNano())
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times = append(c.times, took)
	c.fails[strings.SplitN(err.Error(), " (", 2)[0]]++
}

// failures returns the sorted durations of the calls that failed since its last call.
func (c *crowd) failures() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	times := c.times
	c.times = nil
	slices.Sort(times)
	return times
}

// why returns how often calls failed, by reason.
func (c *crowd) why() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.fails)
}

func (c *crowd) end() {
	close(c.stop)
	c.running.Wait()
}

func permille(times []time.Duration, n int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[min(len(times)*n/1000, len(times)-1)]
}

// gap is twice the time between two calls of a crowd: it makes 20,000 calls a second, if the machine can.
func gap() time.Duration {
	if racing.Enabled {
		return time.Millisecond
	}
	return 100 * time.Microsecond
}

// slack is how much later than its deadline a call may return.
func slack() time.Duration {
	if racing.Enabled {
		return 100 * time.Millisecond
	}
	return 25 * time.Millisecond
}

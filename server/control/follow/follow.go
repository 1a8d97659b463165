package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/control"
)

// Config configures a Follower.
type Config struct {
	// Source provides the rules.
	Source Source
	// Dir stores the last valid rules, for a start without the source. Default none.
	Dir string
	// Apply puts rules in force. If it returns an error, the previous rules stay in force. Apply is not called when
	// only clients change, because the Set in force then changes itself.
	Apply func(*match.Set) error
	// Suspend, if set, is called with all suspensions when they may have changed. For a snapshot, it is called before
	// Apply. The function must end each suspension when it expires.
	Suspend func([]control.Suspension)
	// Changed, if set, is called after each change of Status.
	Changed func(Status)
	// CheckClient, if set, returns a warning about a valid client, for example that no request to this node can match
	// it, or "". The log and Status show the first warning of each change.
	CheckClient func(*rules.Client) string
	// HeavyWork, if set, is called before work that may slow down decisions, such as compiling a thousand rules. The
	// Follower calls done after the work.
	HeavyWork func() (done func())
	// Node returns the content of a heartbeat. The Follower sets the namespace, revision, lag and error. Default: no
	// heartbeats.
	Node func() control.Node
	// Logger is for operators. Default slog.Default().
	Logger *slog.Logger
	// Clock returns the current time. Default time.Now.
	Clock func() time.Time
	// Poll is the average interval between polls of the source. Each interval differs by up to a fifth. Default
	// DefaultPoll.
	Poll time.Duration
	// Timeout is how long Open waits for the source before it uses the rules on disk, or none. Default 5s.
	Timeout time.Duration
}

// Defaults of Config.
const (
	DefaultPoll      = 10 * time.Second
	DefaultHeartbeat = 10 * time.Second
)

func (c *Config) validate() error {
	switch {
	case c.Source == nil:
		return errors.New("follow: no Source")
	case c.Apply == nil:
		return errors.New("follow: no Apply")
	case c.Poll < 0 || c.Timeout < 0:
		return errors.New("follow: Poll and Timeout: want durations above 0")
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Poll = cmp.Or(c.Poll, DefaultPoll)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.CheckClient == nil {
		c.CheckClient = func(*rules.Client) string { return "" }
	}
	if c.HeavyWork == nil {
		c.HeavyWork = func() func() { return func() {} }
	}
	if c.Suspend == nil {
		c.Suspend = func([]control.Suspension) {}
	}
	if c.Changed == nil {
		c.Changed = func(Status) {}
	}
	return nil
}

// A Follower keeps rules up to date with a source. Create one with Open, run it with Run, close it with Close.
type Follower struct {
	config       Config
	log          *slog.Logger
	started      time.Time
	fetchNow     chan struct{} // requests a fetch
	heartbeatNow chan struct{} // requests a heartbeat

	mu     sync.Mutex
	status Status

	// The following fields belong to the fetching goroutine.
	current         *ruleState   // nil if there are no rules yet
	disk            *disk        // nil if rules are not stored
	fromSource      bool         // current is from this source
	fromOtherSource bool         // current is from the file of another source
	refused         control.Mark // the rules refused last; zero if newer rules are in force

	openTimer     *time.Timer // cancels the first fetch of Open unless a response begins in time
	lastDiskFetch time.Time   // time of the last fetch of a snapshot for the disk
}

// Open returns a Follower and puts the first rules in force: the rules of the source or, if the source does not respond
// in time, the rules on disk. If there are neither, Ready in the Status is false. Open returns an error only if the
// Config is invalid.
func Open(ctx context.Context, c Config) (*Follower, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	f := &Follower{
		config: c, started: c.Clock(), log: c.Logger.With("namespace", c.Source.Namespace()),
		fetchNow: make(chan struct{}, 1), heartbeatNow: make(chan struct{}, 1),
		status: Status{Source: c.Source.Name(), Namespace: c.Source.Namespace()},
	}
	if c.Dir != "" {
		f.openDisk()
	}
	// The timeout applies until the response begins. After that, the response may take any time.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.openTimer = time.AfterFunc(c.Timeout, func() { cancel(errTimeout) })
	defer f.openTimer.Stop()
	if err := f.fetch(ctx); err != nil && f.current == nil {
		f.log.Error("no rules yet: requests are not limited until the rules service is reachable",
			"source", f.config.Source.Name(), "err", err.Error())
	}
	return f, nil
}

var errTimeout = errors.New("the source did not respond in time")

// openDisk puts the rules on disk in force. A problem with the disk does not prevent the start.
func (f *Follower) openDisk() {
	d, err := openDisk(f.config.Dir, f.config.Source.Namespace(), f.config.Source.Name())
	if err != nil {
		f.diskFailed(err)
		return
	}
	f.disk = d
	first := &fetchSink{follower: f}
	var state *ruleState
	replayed := false
	sameOrigin, err := d.load(first, func() (Sink, func() error) {
		next := &fetchSink{follower: f}
		return next, func() (err error) {
			if state == nil {
				if state, err = first.snapshot.finish(f.config.Clock()); err != nil {
					return err
				}
			}
			if next.delta == nil || next.delta.header.Since != state.mark.Revision {
				return fmt.Errorf("%w: a change does not continue from the previous one", control.ErrBroken)
			}
			replayed = true
			return state.replay(next.delta)
		}
	})
	switch {
	case err != nil: // handled below
	case state == nil: // there are no changes after the snapshot
		state, err = first.snapshot.finish(f.config.Clock())
	case replayed:
		err = state.finishReplay(f.config.Clock())
	}
	if err == nil {
		f.applySuspensions(state)
		err = f.config.Apply(state.set)
	}
	if d.lockFile == nil {
		f.disk = nil // the disk is read-only
	}
	switch {
	case notExist(err) && d.readOnlyErr == nil: // the first start
	case notExist(err):
		f.diskFailed(d.readOnlyErr)
	case err != nil:
		f.log.Warn("the rules on disk are unusable: without the rules service the node starts without rules",
			"err", err.Error())
		f.updateStatus(func(s *Status) { s.DiskError = err.Error() })
	default:
		f.current, f.fromSource, f.fromOtherSource = state, sameOrigin, !sameOrigin
		f.setInForce(control.Header{Revision: state.mark.Revision}, true, slog.LevelInfo)
		if d.readOnlyErr != nil {
			f.diskFailed(d.readOnlyErr)
		}
	}
}

func (f *Follower) diskFailed(err error) {
	f.log.Warn("rules are not stored on disk: without the rules service the node would start with the stored rules, "+
		"or none", "err", err.Error())
	f.updateStatus(func(s *Status) { s.DiskError = err.Error() })
}

// Refresh requests a fetch from the source.
func (f *Follower) Refresh() { trySend(f.fetchNow) }

// Report requests a heartbeat, because what Node returns has changed.
func (f *Follower) Report() { trySend(f.heartbeatNow) }

func trySend(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // a request is already pending
	}
}

// Run follows the source until ctx ends. It must be called only once.
func (f *Follower) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { f.watch(ctx) })
	if f.config.Node != nil {
		group.Go(func() { f.runHeartbeats(ctx) })
	}
	f.fetchLoop(ctx)
	group.Wait()
}

// Close closes the file on disk. It must be called after Run has returned.
func (f *Follower) Close() error {
	if f.disk == nil {
		return nil
	}
	return f.disk.close()
}

// watch requests a fetch when the source signals a change.
func (f *Follower) watch(ctx context.Context) {
	failed := false // the last yield was an error
	for revision, err := range f.config.Source.Watch(ctx) {
		if ctx.Err() != nil {
			return
		}
		f.updateStatus(func(s *Status) {
			s.Push = err == nil
			s.PushError = ""
			if err != nil {
				s.PushError = err.Error()
			}
		})
		if err != nil {
			failed = true
			f.log.Debug("stream of changes failed", "err", err.Error())
		} else if failed || revision != f.Status().Revision {
			f.Refresh() // after an outage, a restored database may have assigned the same number to another change
			failed = false
		}
	}
}

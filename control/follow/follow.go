package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules"
)

// Config says whom to follow.
type Config struct {
	// Source is where rules come from.
	Source Source
	// Dir is where the last good rules are kept, for a start without the source. Default none: they are not kept.
	Dir string
	// Apply puts rules in force, or says why it cannot: then those before stay. Clients come and go within them without it
	// being called again.
	Apply func(*rules.Set) error
	// Changed, if any, is called after each change that came into force, and after what Status says has changed otherwise.
	Changed func(Status)
	// Doubt, if any, says what is suspicious about a client that is right: that no request of this node could be its, say. The
	// log and Status have the first of each change.
	Doubt func(*rules.Client) string
	// Heavy, if any, is called before much is made at once while requests are decided, such as a thousand rules, and what it returns when
	// that is done.
	Heavy func() (done func())
	// Node is what heartbeats say of the node besides what the Follower knows. Default: there are none.
	Node func() control.Node
	// Logger hears what operators should know. Default slog.Default.
	Logger *slog.Logger
	// Clock is asked for the time, by which overrides end. Default time.Now.
	Clock func() time.Time
	// Poll is how often the source is asked although it has said nothing, give or take a fifth. Default DefaultPoll.
	Poll time.Duration
	// Timeout is how long Open waits for the source before it starts from disk, or without rules. Default DefaultTimeout.
	Timeout time.Duration
}

// What holds unless told otherwise.
const (
	DefaultPoll      = 10 * time.Second
	DefaultTimeout   = 5 * time.Second
	DefaultHeartbeat = 10 * time.Second
)

func (c *Config) complete() error {
	switch {
	case c.Source == nil:
		return errors.New("follow: no Source")
	case c.Apply == nil:
		return errors.New("follow: no Apply")
	case c.Poll < 0 || c.Timeout < 0:
		return errors.New("follow: Poll and Timeout: want times above 0")
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Poll == 0 {
		c.Poll = DefaultPoll
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Doubt == nil {
		c.Doubt = func(*rules.Client) string { return "" }
	}
	if c.Heavy == nil {
		c.Heavy = func() func() { return func() {} }
	}
	if c.Changed == nil {
		c.Changed = func(Status) {}
	}
	return nil
}

// A Follower keeps rules what a source says. Make one with Open, run it with Run, close it with Close.
type Follower struct {
	config  Config
	log     *slog.Logger
	started time.Time
	poke    chan struct{} // there is something to fetch
	beat    chan struct{} // there is something to tell

	mu     sync.Mutex
	status Status

	// What follows is of the goroutine that fetches.
	held    *held        // nil if there is nothing yet
	disk    *disk        // nil if nothing is kept
	known   bool         // held is of this source
	foreign bool         // held is of a file of another source
	bad     control.Mark // what was refused; zero if nothing was

	opening *time.Timer // runs until the source begins to answer for the first time
	mended  time.Time   // when everything was last fetched for the disk
}

// Open makes a Follower and puts the first rules in force: those of the source or, if it does not answer in time, those on
// disk. If there are none of either it goes on without, and Status says so. The error is about the Config.
func Open(ctx context.Context, c Config) (*Follower, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	f := &Follower{
		config: c, started: c.Clock(), log: c.Logger.With("namespace", c.Source.Namespace()),
		poke: make(chan struct{}, 1), beat: make(chan struct{}, 1),
		status: Status{Source: c.Source.Name(), Namespace: c.Source.Namespace()},
	}
	if c.Dir != "" {
		f.openDisk()
	}
	// The source has that long to begin to answer. When it does, all may take as long as it comes.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.opening = time.AfterFunc(c.Timeout, func() { cancel(errTimeout) })
	defer f.opening.Stop()
	if err := f.fetch(ctx); err != nil && f.held == nil {
		f.log.Error("there are no rules yet: nobody is limited until the rules service is there", "source", f.config.Source.Name(), "err", err.Error())
	}
	return f, nil
}

var errTimeout = errors.New("the source did not answer in time")

// openDisk puts the rules on disk in force. Whatever is wrong there is no reason not to start.
func (f *Follower) openDisk() {
	d, err := openDisk(f.config.Dir, f.config.Source.Namespace(), f.config.Source.Name())
	if err != nil {
		f.diskFailed(err)
		return
	}
	f.disk = d
	first := &taker{follower: f}
	var h *held
	same, err := d.load(first, func() (Sink, func() error) {
		next := &taker{follower: f}
		return next, func() (err error) {
			if h == nil {
				if h, err = first.whole.finish(f.config.Clock()); err != nil {
					return err
				}
			}
			if next.delta == nil || next.delta.header.Since != h.mark.Revision {
				return fmt.Errorf("%w: a change that does not follow", control.ErrBroken)
			}
			_, err = h.change(next.delta, f.config.Clock(), func(*rules.Set) error { return nil })
			return err
		}
	})
	if err == nil && h == nil {
		h, err = first.whole.finish(f.config.Clock())
	}
	if err == nil {
		err = f.config.Apply(h.set)
	}
	if d.locked == nil {
		f.disk = nil // it can only be read
	}
	switch {
	case missing(err) && d.why == nil:
	case missing(err):
		f.diskFailed(d.why)
	case err != nil:
		f.log.Warn("the rules on disk are of no use: without the rules service the node starts without", "err", err.Error())
		f.change(func(s *Status) { s.Disk = err.Error() })
	default:
		f.held, f.known, f.foreign = h, same, !same
		f.inForce(control.Header{Revision: h.mark.Revision}, true, slog.LevelInfo)
		if d.why != nil {
			f.diskFailed(d.why)
		}
	}
}

func (f *Follower) diskFailed(err error) {
	f.log.Warn("rules are not kept on disk: without the rules service the node would start with those that are there, or without", "err", err.Error())
	f.change(func(s *Status) { s.Disk = err.Error() })
}

// Poke has the source asked at once.
func (f *Follower) Poke() { signal(f.poke) }

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default: // one is due already
	}
}

// Run follows until ctx ends. Call it once.
func (f *Follower) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { f.watch(ctx) })
	if f.config.Node != nil {
		group.Go(func() { f.heartbeats(ctx) })
	}
	f.retrieve(ctx)
	group.Wait()
}

// Close ends what Open has opened. Call it when Run has returned.
func (f *Follower) Close() error {
	if f.disk == nil {
		return nil
	}
	return f.disk.close()
}

// watch pokes when the source says that there is something new.
func (f *Follower) watch(ctx context.Context) {
	broken := false
	for revision, err := range f.config.Source.Watch(ctx) {
		if ctx.Err() != nil {
			return
		}
		f.change(func(s *Status) {
			s.Push = err == nil
			s.PushError = ""
			if err != nil {
				s.PushError = err.Error()
			}
		})
		if err != nil {
			broken = true
			f.log.Debug("the stream of changes broke", "err", err.Error())
		} else if broken || revision != f.Status().Revision {
			f.Poke() // the number may be of another past, if the service was away
			broken = false
		}
	}
}

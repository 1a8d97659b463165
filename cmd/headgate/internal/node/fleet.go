package node

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/telemetry"
)

// company is how a node shares limits with others, beyond asking the store for every decision. Its parts are nil where the
// configuration has no use for them.
type company struct {
	config *config.Config
	stores *stores
	id     string
	log    *slog.Logger

	roll    *fleet.Roll
	gossip  *fleet.Gossip
	lease   *fleet.Lease
	async   *tardy[*fleet.Async]
	members fleet.Members // nil if nobody counts the nodes
}

// openCompany begins to share limits.
func openCompany(ctx context.Context, c *config.Config, s *stores, id string, secret []byte, log *slog.Logger) (*company, error) {
	k := &company{config: c, stores: s, id: shortName(id), log: log}
	if err := k.open(ctx, secret); err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

// maxNodeName is how long the name of a node is at most where nodes speak of each other.
const maxNodeName = 64

// shortName returns a name that is short enough, and as different from others as the one it is made of.
func shortName(id string) string {
	if len(id) <= maxNodeName {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	end := "-" + hex.EncodeToString(sum[:8])
	return id[:maxNodeName-len(end)] + end
}

func (k *company) open(ctx context.Context, secret []byte) error {
	if k.config.Gossips() {
		if err := k.openGossip(secret); err != nil {
			return err
		}
		k.members = k.gossip
	}
	if k.stores.redis == nil {
		return nil
	}
	if err := k.openRoll(ctx); err != nil {
		return err
	}
	k.stores.nodes.Store(&k.members)
	var err error
	if k.lease, err = fleet.NewLease(k.stores.guard, fleet.LeaseOptions{
		TTL: k.config.Fleet.LeaseTTL, MaxKeys: k.config.Fleet.MaxKeys, Members: k.members,
	}); err != nil {
		return err
	}
	return k.openAsync(ctx)
}

func (k *company) name() string { return cmp.Or(k.config.Fleet.Name, fleet.DefaultGossipCluster) }

func (k *company) openGossip(secret []byte) error {
	c := k.config
	key, err := c.GossipKey()
	if err != nil {
		return err
	}
	if key == nil {
		k.log.Warn("no --gossip-key-file: whoever reaches the gossip address can use up limits", "address", c.GossipAddr)
	}
	k.gossip, err = fleet.NewGossip(fleet.LedgerOptions{
		Secret: secret, MaxKeys: c.Fleet.MaxKeys, LocalCap: c.Fleet.LocalCap, OnRefused: k.refused,
	}, fleet.GossipOptions{
		Name: k.id, Cluster: k.name(), BindAddr: c.GossipAddr, Advertise: c.Fleet.Advertise, Join: c.Join, Key: key,
		Bandwidth: int64(c.Fleet.Bandwidth), OnEvent: k.gossipEvent,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c.Where("gossip-addr"), err)
	}
	return nil
}

// openRoll has the nodes that share a store counted there. The roll counts before gossip, as all that share the store are
// on it.
func (k *company) openRoll(ctx context.Context) error {
	book, err := k.stores.redis.Roll(k.name())
	if err != nil {
		return fmt.Errorf("fleet.name: %w", err)
	}
	if k.roll, err = fleet.NewRoll(ctx, book, fleet.RollOptions{Name: k.id, Logger: k.log}); err != nil {
		return err
	}
	k.members = k.roll
	return nil
}

// openAsync begins to exchange what was taken, or sees to it that this happens as soon as the store answers: what keys are
// hashed with is kept there.
func (k *company) openAsync(ctx context.Context) error {
	k.async = newTardy[*fleet.Async](k.stores.memory)
	create := func(ctx context.Context) (*fleet.Async, error) {
		return k.exchange(ctx, k.stores.redis, k.config.Fleet.Interval)
	}
	return k.async.open(ctx, create, k.log.With("mode", rules.Async.String()))
}

// exchange returns a limiter whose nodes tell each other through a store what they took.
func (k *company) exchange(ctx context.Context, through *redisstore.Store, interval time.Duration) (*fleet.Async, error) {
	secret, err := through.FleetSecret(ctx)
	if err != nil {
		return nil, err
	}
	ledger := fleet.LedgerOptions{
		Secret: secret, MaxKeys: k.config.Fleet.MaxKeys, LocalCap: k.config.Fleet.LocalCap, Members: k.members, OnRefused: k.refused,
	}
	o := fleet.AsyncOptions{Name: k.id, Interval: interval, OnEvent: k.asyncEvent}
	board, err := through.Board(redisstore.BoardOptions{Name: k.name(), Author: o.Author(), Mark: fleet.Fingerprint(secret)})
	if err != nil {
		return nil, err
	}
	return fleet.NewAsync(ledger, board, o)
}

// modes are the stores of lease, async and gossip that there are.
func (k *company) modes() map[rules.Consistency]headgate.Limiter {
	list := make(map[rules.Consistency]headgate.Limiter)
	if k.lease != nil {
		list[rules.Lease] = k.lease
	}
	if k.async != nil {
		list[rules.Async] = k.async
	}
	if k.gossip != nil {
		list[rules.Gossip] = k.gossip
	}
	return list
}

// closeTime is how long handing back and saying farewell may take.
const closeTime = 2 * time.Second

// close hands back what is held and tells others what they do not know yet. If they cannot be reached that is told, and no
// fault of this node.
func (k *company) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	var errs []error
	if k.lease != nil {
		errs = append(errs, k.lease.Close(ctx))
	}
	if k.async != nil {
		errs = append(errs, k.async.close(ctx))
	}
	if k.gossip != nil {
		errs = append(errs, k.gossip.Close())
	}
	if k.roll != nil {
		errs = append(errs, k.roll.Close(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		k.log.Warn("left without a word: others learn of it later", "error", err.Error())
	}
}

func (k *company) refused(from fleet.Peer, _ fleet.Tally, why string) {
	k.log.Warn("a node tells what cannot be true; it is not believed", "node", from.Name, "why", why)
}

func (k *company) asyncEvent(e fleet.AsyncEvent) {
	args := []any{}
	if e.Err != nil {
		args = append(args, "error", e.Err.Error())
	}
	level := slog.LevelWarn
	if e.Kind == fleet.ExchangeBack {
		level, args = slog.LevelInfo, append(args, "down", e.Down.String())
	}
	k.log.Log(context.Background(), level, e.Kind.String(), args...)
}

func (k *company) gossipEvent(e fleet.GossipEvent) {
	level := slog.LevelWarn
	switch e.Kind {
	case fleet.HostJoined, fleet.HostLeft, fleet.HostForgotten, fleet.Resumed:
		level = slog.LevelInfo
	}
	args := []any{"node", e.Host}
	if e.Detail != "" {
		args = append(args, "detail", e.Detail)
	}
	if e.Unsaid > 0 {
		args = append(args, "unsaid", e.Unsaid)
	}
	k.log.Log(context.Background(), level, e.Kind.String(), args...)
}

// measure adds what is to be told of the fleet to what is scraped.
func (k *company) measure(to *telemetry.Sources) { to.Fleet = k.figures }

func (k *company) figures() telemetry.Fleet {
	var f telemetry.Fleet
	if k.members != nil {
		f.Live, f.Known = k.members.Live(), k.members.Known()
	}
	if k.lease != nil {
		s := k.lease.Stats()
		f.Lease = &telemetry.Lease{
			Keys: s.Keys, Calls: s.Calls, Failures: s.Failures, Granted: s.Granted, Returned: s.Returned, Expired: s.Expired,
			Denied: s.Denied, Waits: s.Waits, Exact: s.Exact, Degraded: s.Degraded,
		}
	}
	if k.async != nil {
		if a, ok := k.async.get(); ok {
			s := a.Stats()
			n := news(rules.Async.String(), s.LedgerStats)
			n.Told, n.Heard, n.Failures, n.Up = s.Sent, s.Heard, s.Failures, !s.Away
			f.News = append(f.News, n)
		} else {
			f.News = append(f.News, telemetry.News{Mode: rules.Async.String()})
		}
	}
	if k.gossip != nil {
		s := k.gossip.Stats()
		n := news(rules.Gossip.String(), s.Ledger)
		n.Told, n.Heard, n.Failures, n.Up = s.Sent, s.Heard, s.SendErrors, s.Live > 1 || s.Known == 1
		f.News = append(f.News, n)
		f.Gossip = &telemetry.Gossip{
			SentBytes: s.SentBytes, HeardBytes: s.HeardBytes, Malformed: s.Malformed, WrongKey: s.WrongKey,
			Foreign: s.Foreign + s.OtherCluster, SendErrors: s.SendErrors, Duplicates: s.Duplicates, Skipped: s.Skipped,
		}
	}
	return f
}

// status says how limits are shared, and whether nodes do not hear of each other. It is nil if there is nobody to share with.
func (k *company) status() (s *telemetry.FleetStatus, silent bool) {
	if k.members == nil {
		return nil, false
	}
	f := k.figures()
	s = &telemetry.FleetStatus{Live: f.Live, Known: f.Known}
	for _, n := range f.News {
		s.News = append(s.News, telemetry.NewsStatus{Mode: n.Mode, Up: n.Up, LagMS: n.Lag.Milliseconds(), Over: n.Over})
		silent = silent || !n.Up
	}
	return s, silent
}

func news(mode string, s fleet.LedgerStats) telemetry.News {
	return telemetry.News{
		Mode: mode, Keys: int64(s.Keys), Waiting: int64(s.Waiting), Absorbed: s.Absorbed, Over: s.Over, OverMax: s.OverMax,
		Lag: s.Lag, LagMax: s.LagMax, Refused: s.Refused, Evicted: s.Evicted, Full: s.Full,
	}
}

// A closer is a limiter that is closed with a deadline.
type closer interface {
	headgate.Limiter
	Close(ctx context.Context) error
}

// A tardy limiter is one that cannot be made before a server answers. Until then another decides.
type tardy[L closer] struct {
	meanwhile headgate.Limiter
	made      atomic.Pointer[L]

	cancel context.CancelFunc
	ended  chan struct{}
}

func newTardy[L closer](meanwhile headgate.Limiter) *tardy[L] {
	return &tardy[L]{meanwhile: meanwhile, cancel: func() {}}
}

// How long making it may take, and how often it is tried.
const (
	tardyTimeout = time.Second
	tardyEvery   = time.Second
)

// open makes the limiter now or, if the server is away, as soon as it can. What waiting does not cure is an error.
func (t *tardy[L]) open(ctx context.Context, create func(context.Context) (L, error), log *slog.Logger) error {
	err := t.try(ctx, create)
	if err == nil {
		return nil
	}
	if !errors.Is(err, redisstore.ErrAway) && !errors.Is(err, redisstore.ErrUnanswered) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	log.Warn("the store is away: until it answers, this node counts by itself", "error", err.Error())
	life, cancel := context.WithCancel(context.Background())
	t.cancel, t.ended = cancel, make(chan struct{})
	go func() {
		defer close(t.ended)
		tick := time.NewTicker(tardyEvery)
		defer tick.Stop()
		for {
			select {
			case <-life.Done():
				return
			case <-tick.C:
			}
			if err := t.try(life, create); err == nil {
				log.Info("the store answers: nodes tell each other what they took")
				return
			}
		}
	}()
	return nil
}

func (t *tardy[L]) try(ctx context.Context, create func(context.Context) (L, error)) error {
	ctx, cancel := context.WithTimeout(ctx, tardyTimeout)
	defer cancel()
	made, err := create(ctx)
	if err == nil {
		t.made.Store(&made)
	}
	return err
}

// get returns the limiter, if it is made.
func (t *tardy[L]) get() (made L, ok bool) {
	if p := t.made.Load(); p != nil {
		return *p, true
	}
	return made, false
}

func (t *tardy[L]) close(ctx context.Context) error {
	t.cancel()
	if t.ended != nil {
		<-t.ended
	}
	if made, ok := t.get(); ok {
		return made.Close(ctx)
	}
	return nil
}

// now returns who decides.
func (t *tardy[L]) now() headgate.Limiter {
	if p := t.made.Load(); p != nil {
		return *p
	}
	return t.meanwhile
}

var _ engine.Borrower = (*tardy[*fleet.Async])(nil)

// BorrowsKeys promises that strings are read only until a call returns.
func (t *tardy[L]) BorrowsKeys() {}

func (t *tardy[L]) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return t.now().Take(ctx, c)
}

func (t *tardy[L]) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	return t.now().TakeAll(ctx, checks, dst)
}

func (t *tardy[L]) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return t.now().Charge(ctx, c)
}

func (t *tardy[L]) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	return t.now().Give(ctx, c, r)
}

func (t *tardy[L]) Reset(ctx context.Context, c headgate.Check) error { return t.now().Reset(ctx, c) }

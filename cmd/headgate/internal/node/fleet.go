package node

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/fleet/async"
	"github.com/headgate/headgate/fleet/gossip"
	"github.com/headgate/headgate/fleet/lease"
	"github.com/headgate/headgate/fleet/membership"
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

	roll    *membership.Membership
	gossip  *gossip.Limiter
	lease   *lease.Limiter
	async   *tardy[*async.Limiter]
	abroad  *abroad       // nil if there is one region
	members fleet.Members // nil if nobody counts the nodes
	met     atomic.Bool   // another node was heard of by gossip
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
	if k.lease, err = lease.New(k.stores.guard, lease.Options{
		TTL: k.config.Fleet.LeaseTTL, MaxKeys: k.config.Fleet.MaxKeys, Members: k.members,
	}); err != nil {
		return err
	}
	if err := k.openAsync(ctx); err != nil || k.config.GlobalStore == "" {
		return err
	}
	return k.openAbroad(ctx, secret)
}

func (k *company) name() string { return cmp.Or(k.config.Fleet.Name, gossip.DefaultCluster) }

func (k *company) openGossip(secret []byte) error {
	c := k.config
	key, err := c.GossipKey()
	if err != nil {
		return err
	}
	if key == nil {
		k.log.Warn("no --gossip-key-file: whoever reaches the gossip address can use up limits", "address", c.GossipAddr)
	}
	k.gossip, err = gossip.New(k.ledger(secret), gossip.Options{
		Name: k.id, Cluster: k.name(), BindAddr: c.GossipAddr, Advertise: c.Fleet.Advertise, Join: c.Join, Key: key,
		Bandwidth: int64(c.Fleet.Bandwidth), OnEvent: k.gossipEvent,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c.Where("gossip-addr"), err)
	}
	return nil
}

// openRoll has the nodes that share a store counted there, besides what gossip knows of them.
func (k *company) openRoll(ctx context.Context) error {
	book, err := k.stores.redis.Roll(k.name())
	if err != nil {
		return fmt.Errorf("fleet.name: %w", err)
	}
	if k.roll, err = membership.New(ctx, book, membership.Options{Name: k.id, Logger: k.log}); err != nil {
		return err
	}
	if k.gossip != nil {
		k.members = most{k.roll, k.gossip}
	} else {
		k.members = k.roll
	}
	return nil
}

// openAsync begins to exchange what was taken, or sees to it that this happens as soon as the store answers: what keys are
// hashed with is kept there.
func (k *company) openAsync(ctx context.Context) error {
	alone, err := async.NewLocal(k.ledger(nil))
	if err != nil {
		return err
	}
	alone.Degrade(tardyEvery)
	k.async = newTardy[*async.Limiter](alone)
	create := func(ctx context.Context) (*async.Limiter, error) {
		return k.exchange(ctx, k.stores.redis, k.name(), k.config.Fleet.Interval, rules.Async.String())
	}
	return k.async.open(ctx, create, k.log.With("mode", rules.Async.String()))
}

// exchange returns a limiter whose nodes tell each other through a store what they took. The log calls it by its mode.
func (k *company) exchange(ctx context.Context, through *redisstore.Store, name string, interval time.Duration, mode string) (*async.Limiter, error) {
	secret, err := through.FleetSecret(ctx)
	if err != nil {
		return nil, err
	}
	o := async.Options{Name: k.id, Interval: interval, OnEvent: k.tells(mode)}
	board, err := through.Board(redisstore.BoardOptions{Name: name, Author: o.Author(), Mark: fleet.Fingerprint(secret)})
	if err != nil {
		return nil, err
	}
	a, err := async.New(k.ledger(secret), board, o)
	if err == nil {
		k.syncClock(ctx, a)
	}
	return a, err
}

// syncClock has no window go by this host's own date, if it can be helped: if there is no answer now, it is asked for again.
func (k *company) syncClock(ctx context.Context, of interface{ SyncClock(context.Context) error }) {
	if err := of.SyncClock(ctx); err != nil {
		k.log.Warn("the store does not tell its date: until it does, windows begin by this host's", "err", err.Error())
	}
}

// ledger returns how what was taken is kept account of.
func (k *company) ledger(secret []byte) fleet.LedgerOptions {
	f := &k.config.Fleet
	return fleet.LedgerOptions{Secret: secret, MaxKeys: f.MaxKeys, LocalCap: f.LocalCap, Members: k.members, OnRefused: k.refused}
}

// openAbroad begins to share limits with other regions.
func (k *company) openAbroad(ctx context.Context, secret []byte) error {
	c := k.config
	o := c.RedisOptions(secret)
	o.Logger, o.StartUnreachable = k.log, true
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	store, err := redisstore.Open(opening, c.GlobalStore, o)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Where("global-store"), err)
	}
	k.abroad = &abroad{store: store}
	return k.abroad.open(ctx, k)
}

// global are the stores of limits that regions have together.
func (k *company) global() map[rules.Consistency]headgate.Limiter {
	if k.abroad == nil {
		return nil
	}
	return k.abroad.modes()
}

// modes are the stores of lease, async and gossip that there are.
func (k *company) modes() map[rules.Consistency]headgate.Limiter {
	list := make(map[rules.Consistency]headgate.Limiter)
	if k.lease != nil {
		list[rules.Lease] = k.lease
	}
	if k.async != nil {
		list[rules.Async] = borrower[*async.Limiter]{k.async}
	}
	if k.gossip != nil {
		list[rules.Gossip] = k.gossip
	}
	return list
}

// closeTime is how long handing back and saying farewell may take: of each part, however long another takes.
const closeTime = 2 * time.Second

// close hands back what is held and tells others what they do not know yet. If they cannot be reached that is told, and no
// fault of this node.
func (k *company) close() {
	var errs []error
	if k.abroad != nil { // it counts by the others
		errs = append(errs, k.abroad.close())
	}
	var parts []func(context.Context) error
	if k.lease != nil {
		parts = append(parts, k.lease.Close)
	}
	if k.async != nil {
		parts = append(parts, k.async.close)
	}
	if k.gossip != nil {
		parts = append(parts, func(context.Context) error { return k.gossip.Close() })
	}
	if k.roll != nil {
		parts = append(parts, k.roll.Close)
	}
	if err := errors.Join(append(errs, together(parts...))...); err != nil {
		k.log.Warn("left without a word: others learn of it later", "err", err.Error())
	}
}

// together closes parts at the same time.
func together(parts ...func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	errs := make([]error, len(parts))
	var group sync.WaitGroup
	for i, end := range parts {
		group.Go(func() { errs[i] = end(ctx) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func (k *company) refused(from fleet.Peer, why string) {
	k.log.Warn("a node tells what cannot be true; it is not believed", "node", from.Name, "why", why)
}

// tells returns what logs the events of an exchange.
func (k *company) tells(mode string) func(fleet.Event) {
	log := k.log.With("mode", mode)
	return func(e fleet.Event) { logExchange(log, e) }
}

func logExchange(log *slog.Logger, e fleet.Event) {
	args := []any{}
	if e.Err != nil {
		args = append(args, "err", e.Err.Error())
	}
	level := slog.LevelWarn
	switch e.Kind {
	case fleet.ExchangeReachable, fleet.ExchangePartReachable:
		level, args = slog.LevelInfo, append(args, "down", e.Down.String())
	case fleet.ClockRight, fleet.StoreClockRight:
		level = slog.LevelInfo
	case fleet.ClockOff, fleet.StoreClockOff:
		args = append(args, "off", e.Off.Round(time.Millisecond).String())
	}
	log.Log(context.Background(), level, e.Kind.String(), args...)
}

func (k *company) gossipEvent(e gossip.Event) {
	if e.Kind == gossip.HostJoined {
		k.met.Store(true)
	}
	level := slog.LevelWarn
	switch e.Kind {
	case gossip.HostJoined, gossip.HostLeft, gossip.HostForgotten, gossip.Resumed:
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
		n := telemetry.Sync{Mode: rules.Async.String()}
		if a, ok := k.async.get(); ok {
			n = exchanged(n.Mode, a.Stats())
		}
		f.Sync = append(f.Sync, n)
	}
	if k.abroad != nil {
		f.Sync = append(f.Sync, k.abroad.figures())
	}
	if k.gossip != nil {
		s := k.gossip.Stats()
		n := syncOf(rules.Gossip.String(), s.Ledger)
		n.Ahead, n.ClocksOff = s.ClockAhead, int64(s.ClocksOff)
		n.Waiting += s.Waiting // what did not fit the bandwidth
		n.Sent, n.Received, n.Failures, n.Up = s.Sent, s.Received, s.SendErrors, s.Live > 1 || s.Known == 1 && (len(k.config.Join) == 0 || k.met.Load())
		f.Sync = append(f.Sync, n)
		f.Gossip = &telemetry.Gossip{
			SentBytes: s.SentBytes, ReceivedBytes: s.ReceivedBytes, Malformed: s.Malformed, WrongKey: s.WrongKey,
			Foreign: s.Foreign + s.OtherCluster, SendErrors: s.SendErrors, Duplicates: s.Duplicates, Skipped: s.Skipped,
			StreamsRefused: s.StreamsRefused,
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
	for _, n := range f.Sync {
		s.Sync = append(s.Sync, telemetry.SyncStatus{
			Mode: n.Mode, Up: n.Up, LagMS: n.Lag.Milliseconds(), Over: n.Over, ClockAheadMS: n.Ahead.Milliseconds(), ClocksOff: n.ClocksOff,
		})
		silent = silent || !n.Up
	}
	return s, silent
}

func exchanged(mode string, s fleet.ExchangeStats) telemetry.Sync {
	n := syncOf(mode, s.LedgerStats)
	n.Sent, n.Received, n.Failures, n.Up = s.Sent, s.Received, s.Failures, !s.Unreachable && s.UnreachableGroups == 0
	n.Refused += s.Malformed
	if n.Ahead = s.ClockAhead; n.Ahead.Abs() >= fleet.MaxClockSkew {
		n.ClocksOff = 1
	}
	return n
}

func syncOf(mode string, s fleet.LedgerStats) telemetry.Sync {
	return telemetry.Sync{
		Mode: mode, Keys: int64(s.Keys), Waiting: int64(s.Waiting), Applied: s.Applied, Over: s.Over, OverMax: s.OverMax,
		Lag: s.Lag, LagMax: s.LagMax, Refused: s.Refused, Evicted: s.Evicted, Full: s.Full,
		Lookups: s.Lookups, LookupWaits: s.LookupWaits, LookupsDropped: s.LookupsDropped,
	}
}

// most counts nodes by two that know some of them: who is away from a store may still be heard of, and the other way round.
type most [2]fleet.Members

func (m most) Live() int  { return max(m[0].Live(), m[1].Live()) }
func (m most) Known() int { return max(m[0].Known(), m[1].Known()) }

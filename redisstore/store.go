package redisstore

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/redisstore/internal/background"
	"github.com/headgate/headgate/redisstore/internal/topology"
)

var _ headgate.LimitValidator = (*Store)(nil)

// A Store is a headgate.Limiter that counts in Redis. Create one with Open. It is safe for concurrent use.
type Store struct {
	client *topology.Client
	prefix string
	now    func() time.Time    // the time of decisions; nil for the server's clock
	clock  clock.Clock         // the clock of this process
	rand   func(n int64) int64 // returns a random number below n
	log    *slog.Logger

	plans       algorithm.Cache[*plan]
	scripts     atomic.Pointer[scripts]  // nil until the servers' version is known
	keys        atomic.Pointer[keyMaker] // nil until the secret is known
	secret      secretLoader
	servers     inspection
	lostRefunds atomic.Int64
	gatherer    gatherer

	background *background.Group
}

func newStore(c *topology.Client, o Options) *Store {
	s := &Store{
		client: c, prefix: o.Prefix, now: o.Now, clock: o.Clock, rand: o.Rand, log: o.Logger,
		secret: newSecretLoader(), background: background.New(o.Clock),
	}
	if len(o.Secret) > 0 {
		keys := newKeyMaker(o.Prefix, o.Secret)
		if len(o.SecondSecret) > 0 {
			keys.second = newKeyMaker(o.Prefix, o.SecondSecret)
		}
		s.keys.Store(keys)
	}
	return s
}

// Close closes the connections. Active calls fail. A second call does nothing.
func (s *Store) Close() error {
	if !s.background.Stop() {
		return nil
	}
	s.client.Close()
	s.background.Wait()
	return nil
}

// LostRefunds returns how many units were taken for requests that another limit then denied, and could not be given
// back because a server failed or did not respond for some seconds.
func (s *Store) LostRefunds() int64 { return s.lostRefunds.Load() }

// begin returns an error if a method cannot run, for example because the store is closed. Otherwise it returns the
// keyMaker for the method's Redis keys.
func (s *Store) begin(ctx context.Context) (*keyMaker, error) {
	if ctx == nil {
		return nil, headgate.ErrNilContext
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.background.Stopped() {
		return nil, headgate.ErrClosed
	}
	if keys := s.keys.Load(); keys != nil {
		return keys, nil
	}
	return s.loadSecret(ctx)
}

// checkOpen is like begin for a method that needs no keys.
func (s *Store) checkOpen(ctx context.Context) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	if s.background.Stopped() {
		return headgate.ErrClosed
	}
	return nil
}

// beginCheck is like begin, and also validates the check that the method was called with.
func (s *Store) beginCheck(ctx context.Context, c *headgate.Check) (*keyMaker, error) {
	keys, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	return keys, validate(c)
}

// withTime appends the current time to the arguments of a script, if Options.Now replaces the server's clock.
func (s *Store) withTime(args []string) []string {
	if s.now == nil {
		return args
	}
	return append(args, decimal(s.now().UnixMicro()))
}

// runStep runs a script that makes one step of an algorithm. It returns the server's time in µs, whether the step is
// allowed, and the state before the step. If the key has the state of another limit, a peek returns this state; other
// steps replace it first.
func (s *Store) runStep(ctx context.Context, op string, r *request) (now int64, ok bool, state string, err error) {
	current := s.currentScripts()
	sc := current.take[r.plan.algorithm]
	switch op {
	case opPeek:
		sc = current.peek[r.plan.algorithm]
	case opRenew: // the script for refunds can also renew, and works even if the server's memory is full
		sc = current.give[r.plan.algorithm]
	}
	for range maxStepCalls {
		args := s.withTime(append(make([]string, 0, 3), op, r.args()))
		reply, err := s.run(ctx, sc, []string{r.key}, args)
		if err != nil {
			return 0, false, "", err
		}
		now, out, state, err := parseReply(reply)
		if err != nil || out != outcomeOtherLimit {
			return now, out == outcomeAllowed, state, s.explainReply(err, r.key)
		}
		if !r.convertFrom(now, state) {
			return 0, false, "", s.foreignKey(r.key)
		}
		if op == opPeek {
			return now, false, state, nil
		}
	}
	return 0, false, "", s.changingLimits(r.key)
}

// Take decides one check, in one round trip. See [headgate.Limiter].
func (s *Store) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	keys, err := s.beginCheck(ctx, &c)
	if err != nil {
		return headgate.Decision{}, err
	}
	d, _, err := s.takeCheck(ctx, keys, &c)
	return d, err
}

// Peek returns the decision that Take would return now, in one round trip. See [headgate.Limiter].
func (s *Store) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	keys, err := s.begin(ctx)
	if err == nil {
		err = c.ValidatePeek()
	}
	if err == nil {
		err = validateShares(&c)
	}
	if err != nil {
		return headgate.Decision{}, err
	}
	parts := partsOf(&c)
	if parts < 2 {
		return s.chargeOrPeek(ctx, keys, &c, unsplit, opPeek)
	}
	candidates := cmp.Or(candidateCount(&c, parts), parts) // any part returns the denial of a cost that never passes
	part := int(s.rand(int64(candidates)))
	d, err := s.chargeOrPeek(ctx, keys, shareOf(&c, parts, part), part, opPeek)
	if err != nil {
		return headgate.Decision{}, err
	}
	return extrapolate(&c, parts, d), nil
}

// takeCheck decides a valid check. It also returns the state before the decision.
func (s *Store) takeCheck(
	ctx context.Context, keys *keyMaker, c *headgate.Check,
) (d headgate.Decision, before priorState, err error) {
	if parts := partsOf(c); parts > 1 {
		return s.takeSplit(ctx, keys, c, parts)
	}
	r, err := s.newRequest(keys, c, unsplit)
	if err != nil {
		return d, before, err
	}
	return s.take(ctx, &r)
}

// take takes from the key of a request and, with Options.SecondSecret, also from the key under the second secret.
func (s *Store) take(ctx context.Context, r *request) (d headgate.Decision, before priorState, err error) {
	d, before, err = s.takeKey(ctx, r)
	if err != nil || !d.Allowed || r.secondKey == "" {
		return d, before, err
	}
	return s.takeSecond(ctx, r, d, before)
}

func (s *Store) takeKey(ctx context.Context, r *request) (d headgate.Decision, before priorState, err error) {
	op := opTake
	if r.neverPasses() { // scripts expect a cost up to the capacity
		op = opPeek
	}
	now, allowed, state, err := s.runStep(ctx, op, r)
	if err != nil {
		return d, before, err
	}
	d, err = r.decide(now, state, allowed && op == opTake)
	return d, r.priorState(now, state), s.explainReply(err, r.key)
}

// Charge takes the cost even if it exceeds the limit. See [headgate.Limiter].
func (s *Store) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	keys, err := s.beginCheck(ctx, &c)
	if err == nil {
		err = headgate.ValidateUnits(c.Cost)
	}
	if err != nil {
		return headgate.Decision{}, err
	}
	if c.Limit.Algorithm == headgate.Concurrency {
		return headgate.Decision{}, headgate.ErrUnsupported
	}
	if parts := partsOf(&c); parts > 1 {
		return s.chargeSplit(ctx, keys, &c, parts)
	}
	return s.chargeOrPeek(ctx, keys, &c, unsplit, opCharge)
}

// Give returns units that were taken. See [headgate.Limiter].
func (s *Store) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	keys, err := s.beginCheck(ctx, &c)
	if err == nil {
		err = headgate.ValidateRefund(c.Cost, r)
	}
	if err != nil {
		return err
	}
	return s.give(ctx, keys, &c, r)
}

func (s *Store) give(ctx context.Context, keys *keyMaker, c *headgate.Check, receipt headgate.Receipt) error {
	if parts := partsOf(c); parts > 1 {
		return s.giveSplit(ctx, keys, c, receipt, parts)
	}
	return s.givePart(ctx, keys, c, receipt, unsplit)
}

func (s *Store) givePart(
	ctx context.Context, keys *keyMaker, c *headgate.Check, receipt headgate.Receipt, part int,
) error {
	r, err := s.newRequest(keys, c, part)
	if err != nil {
		return err
	}
	r.lease = receipt.Lease
	err = s.giveKey(ctx, &r, receipt)
	if r.secondKey != "" {
		err = errors.Join(err, s.giveKey(ctx, r.underSecondSecret(), receipt))
	}
	return err
}

func (s *Store) giveKey(ctx context.Context, r *request, receipt headgate.Receipt) error {
	name, packed := r.plan.algorithm, r.args(r.plan.LuaReceipt(receipt))
	if algorithm.Grantable(name) {
		done, err := s.giveGathered(ctx, r, packed)
		if done || err != nil {
			return err
		}
	}
	for range maxStepCalls {
		args := s.withTime(append(make([]string, 0, 3), opGive, packed))
		reply, err := s.run(ctx, s.currentScripts().give[name], []string{r.key}, args)
		if err != nil {
			return err
		}
		_, out, state, err := parseReply(reply)
		if err != nil || out != outcomeOtherLimit {
			return s.explainReply(err, r.key)
		}
		// The key has the state of another limit: the units are given back by that limit's script.
		var ok bool
		if name, packed, ok = r.giveArgs(state, receipt); !ok {
			return s.foreignKey(r.key)
		}
	}
	return s.changingLimits(r.key)
}

// giveGathered gives units back, if possible in the same call as other goroutines. If the key has a state of another
// limit, it gives nothing back and returns false.
func (s *Store) giveGathered(ctx context.Context, r *request, packed string) (bool, error) {
	reply, err := s.runGathered(ctx, s.currentScripts().returnGrant[r.plan.algorithm], opGive, r.key, packed)
	if err != nil {
		return false, err
	}
	_, out, _, err := parseReply(reply)
	return out != outcomeOtherLimit, s.explainReply(err, r.key)
}

// Reset clears the consumption of the check's key. See [headgate.Limiter].
func (s *Store) Reset(ctx context.Context, c headgate.Check) error {
	keys, err := s.begin(ctx)
	if err == nil {
		err = headgate.ValidateKey(c.Key)
	}
	if err != nil {
		return err
	}
	parts := []int{unsplit}
	if c.Split > 1 {
		for part := range min(c.Split, headgate.MaxSplit) {
			parts = append(parts, part)
		}
	}
	commands := make([]rueidis.Completed, 0, len(parts))
	var names []string
	for ; keys != nil; keys = keys.second { // under both secrets
		for _, part := range parts {
			key := keys.key(c.Owner, c.Key, part, "")
			names = append(names, key)
			commands = append(commands, s.client.Builder().Unlink().Key(key+consumedSuffix, key+leasesSuffix).Build())
		}
	}
	for i, result := range s.client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return s.explain(err, names[i])
		}
	}
	return nil
}

// splitShard is the shard name of all split keys, since their parts are on many servers.
const splitShard = "split keys"

// Shard returns the name of the shard that decides a check: the address of a primary, or the name that the sentinels
// use for the primary. All split keys have one name together. With Options.SecondSecret two servers may decide; the
// name then contains both of their names.
func (s *Store) Shard(c headgate.Check) string {
	if partsOf(&c) > 1 {
		return splitShard
	}
	if !s.client.Clustered() {
		return s.client.ShardOf("")
	}
	keys := s.keys.Load()
	if keys == nil { // every decision first needs the secret, from the server that stores it
		return s.client.ShardOf(s.secretKey())
	}
	shard := s.client.ShardOf(keys.key(c.Owner, c.Key, unsplit, ""))
	if keys.second == nil {
		return shard
	}
	return joinShards(shard, s.client.ShardOf(keys.second.key(c.Owner, c.Key, unsplit, "")))
}

// explain turns an error of a call about a key into a *ServerError.
func (s *Store) explain(err error, key string) error {
	return s.client.Explain(err, s.client.ShardOf(key))
}

// ValidateLimit returns an error for an invalid limit and for a custom algorithm. [headgate.Bind] uses it.
func (*Store) ValidateLimit(limit headgate.Limit) error { return limit.Validate() }

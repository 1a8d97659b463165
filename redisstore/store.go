package redisstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

var _ headgate.Limiter = (*Store)(nil)

// A Store is a headgate.Limiter that counts in Redis. Make one with Open. It is safe for concurrent use.
type Store struct {
	conn   *connection
	prefix string
	now    func() time.Time // nil for the server's clock
	plans  algorithm.Cache[*plan]
	closed atomic.Bool

	scripts atomic.Pointer[scripts]
	keys    atomic.Pointer[keyMaker] // nil until the secret is known

	lostRefunds atomic.Int64

	secretEvery time.Duration // see secret.go
	learning    chan struct{} // has one in it while somebody gets to know the secret
	stop        chan struct{}
	starting    sync.Mutex // held by who starts something, and by who closes the store
	running     sync.WaitGroup
}

func newStore(c *connection, o Options) *Store {
	s := &Store{
		conn: c, prefix: o.Prefix, now: o.Now,
		secretEvery: defaultSecretEvery,
		learning:    make(chan struct{}, 1), stop: make(chan struct{}),
	}
	if len(o.Secret) > 0 {
		s.keys.Store(newKeyMaker(o.Prefix, o.Secret))
	}
	return s
}

// Close ends the connections. Calls that are under way fail.
func (s *Store) Close() error {
	s.starting.Lock()
	was := s.closed.Swap(true)
	s.starting.Unlock()
	if was {
		return headgate.ErrClosed
	}
	close(s.stop)
	s.conn.close()
	s.running.Wait()
	return nil
}

// start runs something that Close waits for. It is false if the store is closed.
func (s *Store) start(run func()) bool {
	s.starting.Lock()
	defer s.starting.Unlock()
	if s.closed.Load() {
		return false
	}
	s.running.Go(run)
	return true
}

// ForgetsContexts tells those who look after contexts that the store does not keep a call's when the call has returned.
func (s *Store) ForgetsContexts() {}

// LostRefunds returns how many units that had been taken for requests that another limit denied could not be returned: a
// server failed, or did not answer for some seconds.
func (s *Store) LostRefunds() int64 { return s.lostRefunds.Load() }

// admit checks what every method is given first, and sees that keys can be made.
func (s *Store) admit(ctx context.Context) (*keyMaker, error) {
	if ctx == nil {
		return nil, headgate.ErrNilContext
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.closed.Load() {
		return nil, headgate.ErrClosed
	}
	if keys := s.keys.Load(); keys != nil {
		return keys, nil
	}
	return s.learnSecret(ctx)
}

// program returns the scripts for the version of the server.
func (s *Store) program() *scripts {
	if p := s.scripts.Load(); p != nil {
		return p
	}
	s.scripts.CompareAndSwap(nil, newScripts(s.conn.major))
	return s.scripts.Load()
}

// ask prepares a check that is known to be valid.
func (s *Store) ask(keys *keyMaker, c *headgate.Check, part int) (ask, error) {
	p, err := s.plans.Get(&c.Limit, newPlan)
	if err != nil {
		return ask{}, err
	}
	a := ask{plan: p, name: c.Key, n: c.Cost, offset: p.Offset(c.Key), key: keys.keyOf(c.Owner, c.Key, part, p.letter)}
	if p.Kind() == algorithm.KindLeases && c.Cost > 0 {
		a.lease = newLease()
	}
	return a, nil
}

// newLease returns a name that nobody can guess, within the 53 bits that a script can count.
func newLease() uint64 { return rand.Uint64()>>11 | 1<<splitBits }

// timed adds to the arguments of a script what it is told of the time: nothing, unless a test has a clock of its own.
func (s *Store) timed(args []string) []string {
	if s.now == nil {
		return args
	}
	return append(args, decimal(s.now().UnixMicro()))
}

// step has a server make one step, and returns its time, whether it is allowed, and the state it found. A look may find a
// state of another limit; any other step has replaced that.
func (s *Store) step(ctx context.Context, op string, a *ask) (now int64, ok bool, found string, err error) {
	program := s.program()
	sc := program.step[a.plan.algorithm]
	switch op {
	case opLook:
		sc = program.look[a.plan.algorithm]
	case opRenew: // a server whose memory is full must do it all the same
		sc = program.give[a.plan.algorithm]
	}
	for range carryTries {
		answer, err := s.run(ctx, sc, []string{a.key}, s.timed(append(make([]string, 0, 3), op, a.numbers())))
		if err != nil {
			return 0, false, "", err
		}
		now, out, found, err := readAnswer(answer)
		if err != nil || out != changed {
			return now, out == allowed, found, s.named(err, a.key)
		}
		if !a.carry(now, found) {
			return 0, false, "", s.foreign(a.key)
		}
		if op == opLook {
			return now, false, found, nil
		}
	}
	return 0, false, "", s.changing(a.key)
}

// Take decides one check, in one round trip. See [headgate.Limiter].
func (s *Store) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	keys, err := s.admit(ctx)
	if err == nil {
		err = validate(&c)
	}
	if err != nil {
		return headgate.Decision{}, err
	}
	if parts := partsOf(&c); parts > 1 {
		d, _, err := s.takeSplit(ctx, keys, &c, parts)
		return d, err
	}
	a, err := s.ask(keys, &c, unsplit)
	if err != nil {
		return headgate.Decision{}, err
	}
	d, _, err := s.take(ctx, &a)
	return d, err
}

// take decides one check, and returns as well what it found.
func (s *Store) take(ctx context.Context, a *ask) (d headgate.Decision, before found, err error) {
	op := opTake
	if a.n == 0 || a.never() {
		op = opLook
	}
	now, allowed, state, err := s.step(ctx, op, a)
	if err != nil {
		return d, before, err
	}
	d, err = a.decide(now, state, allowed && op == opTake)
	return d, a.found(now, state), s.named(err, a.key)
}

// Charge takes the cost whatever the limit says. See [headgate.Limiter].
func (s *Store) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	keys, err := s.admit(ctx)
	if err == nil {
		err = validate(&c)
	}
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
	return s.chargeOrLook(ctx, keys, &c, unsplit, opCharge)
}

// Give returns units that were taken. See [headgate.Limiter].
func (s *Store) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	keys, err := s.admit(ctx)
	if err == nil {
		err = validate(&c)
	}
	if err == nil {
		err = headgate.ValidateRefund(c.Cost, r)
	}
	if err != nil {
		return err
	}
	return s.give(ctx, keys, &c, r)
}

func (s *Store) give(ctx context.Context, keys *keyMaker, c *headgate.Check, r headgate.Receipt) error {
	if parts := partsOf(c); parts > 1 {
		return s.giveSplit(ctx, keys, c, r, parts)
	}
	return s.giveOne(ctx, keys, c, r, unsplit)
}

func (s *Store) giveOne(ctx context.Context, keys *keyMaker, c *headgate.Check, r headgate.Receipt, part int) error {
	a, err := s.ask(keys, c, part)
	if err != nil {
		return err
	}
	a.lease = r.Lease
	name, numbers := a.plan.algorithm, a.numbers(a.plan.LuaReceipt(r))
	for range carryTries {
		answer, err := s.run(ctx, s.program().give[name], []string{a.key}, s.timed(append(make([]string, 0, 3), opGive, numbers)))
		if err != nil {
			return err
		}
		_, out, found, err := readAnswer(answer)
		if err != nil || out != changed {
			return s.named(err, a.key)
		}
		var ok bool
		if name, numbers, ok = a.giveTo(found, r); !ok {
			return s.foreign(a.key)
		}
	}
	return s.changing(a.key)
}

// Reset forgets what was consumed under the check's key. See [headgate.Limiter].
func (s *Store) Reset(ctx context.Context, c headgate.Check) error {
	keys, err := s.admit(ctx)
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
	for _, part := range parts {
		key := keys.key(c.Owner, c.Key, part)
		names = append(names, key)
		commands = append(commands, s.conn.b().Unlink().Key(key+consumedLetter, key+heldLetter).Build())
	}
	for i, result := range s.conn.doMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return s.conn.explain(err, s.conn.shardOf(s.conn.slotOf(names[i])))
		}
	}
	return nil
}

// splitShard is the shard of keys that are counted in parts.
const splitShard = "split keys"

// Shard names the server that decides a check, for those who keep account of servers. Keys that are counted in parts
// are on many, and have a name of their own.
func (s *Store) Shard(c headgate.Check) string {
	if partsOf(&c) > 1 {
		return splitShard
	}
	if !s.conn.clustered() {
		return s.conn.shardOf(0)
	}
	keys := s.keys.Load()
	if keys == nil { // until the secret is known all depends on who has it
		return s.conn.shardOf(s.conn.slotOf(s.secretKey()))
	}
	return s.conn.shardOf(s.conn.slotOf(keys.key(c.Owner, c.Key, unsplit)))
}

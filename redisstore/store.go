package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	randv2 "math/rand/v2"
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
	secret  sync.Mutex               // held by whoever gets to know it

	lostRefunds atomic.Int64
}

func newStore(c *connection, o Options) (*Store, error) {
	s := &Store{conn: c, prefix: o.Prefix, now: o.Now}
	if len(o.Secret) > 0 {
		s.keys.Store(newKeyMaker(o.Prefix, o.Secret))
	}
	return s, nil
}

// Close ends the connections. Calls that are under way fail.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return headgate.ErrClosed
	}
	s.conn.close()
	return nil
}

// LostRefunds returns how often units that had been taken for a request that another limit denied could not be given
// back.
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

// learnSecret returns the maker of keys under the secret that is in Redis, which is made when the first store comes.
func (s *Store) learnSecret(ctx context.Context) (*keyMaker, error) {
	s.secret.Lock()
	defer s.secret.Unlock()
	if keys := s.keys.Load(); keys != nil {
		return keys, nil
	}
	at := s.prefix + ":secret"
	fresh := make([]byte, 32)
	rand.Read(fresh)
	made := s.conn.do(ctx, s.conn.b().Set().Key(at).Value(base64.RawStdEncoding.EncodeToString(fresh)).Nx().Build())
	if err := made.Error(); err != nil && !rueidis.IsRedisNil(err) {
		return nil, s.conn.explain(err, s.conn.shardOf(s.conn.slotOf(at)))
	}
	text, err := s.conn.do(ctx, s.conn.b().Get().Key(at).Build()).ToString()
	if err != nil {
		return nil, s.conn.explain(err, s.conn.shardOf(s.conn.slotOf(at)))
	}
	secret, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(secret) < 16 {
		return nil, fmt.Errorf("redisstore: the value of %q is not a secret: something else writes to this key; choose another Prefix, or give a Secret", at)
	}
	keys := newKeyMaker(s.prefix, secret)
	s.keys.Store(keys)
	return keys, nil
}

// program returns the scripts for the version of the server.
func (s *Store) program() *scripts {
	if p := s.scripts.Load(); p != nil {
		return p
	}
	p := newScripts(s.conn.major)
	s.scripts.Store(p)
	return p
}

// ask prepares a check that is known to be valid.
func (s *Store) ask(keys *keyMaker, c *headgate.Check, part int) (ask, error) {
	p, err := s.plans.Get(&c.Limit, newPlan)
	if err != nil {
		return ask{}, err
	}
	a := ask{plan: p, n: c.Cost, offset: p.Offset(c.Key), key: keys.key(c.Owner, c.Key, part) + p.letter}
	if p.Kind() == algorithm.KindLeases && c.Cost > 0 {
		a.lease = newLease()
	}
	return a, nil
}

// newLease returns a name that nobody can guess, within the 53 bits that a script can count.
func newLease() uint64 { return randv2.Uint64()>>11 | 1<<splitBits }

// time returns what a script is told of the time: nothing, unless a test has a clock of its own.
func (s *Store) time() string {
	if s.now == nil {
		return ""
	}
	return decimal(s.now().UnixMicro())
}

// step has a server make one step, and returns its time, whether it is allowed, and the state it found.
func (s *Store) step(ctx context.Context, op string, a *ask, more ...string) (now int64, allowed bool, found string, err error) {
	sc := s.program().step[a.plan.algorithm]
	if op == opLook {
		sc = s.program().look[a.plan.algorithm]
	}
	args := append(a.numbers(append(make([]string, 0, 7), s.time(), op)), more...)
	answer, err := s.run(ctx, sc, []string{a.key}, args)
	if err != nil {
		return 0, false, "", err
	}
	return readAnswer(answer)
}

// Take decides one check, in one round trip. See [headgate.Limiter].
func (s *Store) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	keys, err := s.admit(ctx)
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return headgate.Decision{}, err
	}
	if parts := partsOf(&c); parts > 1 {
		return s.takeSplit(ctx, keys, &c, parts)
	}
	a, err := s.ask(keys, &c, unsplit)
	if err != nil {
		return headgate.Decision{}, err
	}
	return s.take(ctx, &a)
}

func (s *Store) take(ctx context.Context, a *ask) (headgate.Decision, error) {
	op := opTake
	if a.n == 0 || a.never() {
		op = opLook
	}
	now, allowed, found, err := s.step(ctx, op, a)
	if err != nil {
		return headgate.Decision{}, err
	}
	return a.decide(now, found, allowed && op == opTake)
}

// Charge takes the cost whatever the limit says. See [headgate.Limiter].
func (s *Store) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	keys, err := s.admit(ctx)
	if err == nil {
		err = c.Validate()
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
	part, share := draw(&c)
	a, err := s.ask(keys, share, part)
	if err != nil {
		return headgate.Decision{}, err
	}
	now, _, found, err := s.step(ctx, opCharge, &a)
	if err != nil {
		return headgate.Decision{}, err
	}
	d, err := a.charged(now, found)
	return whole(&c, part, d), err
}

// Give returns units that were taken. See [headgate.Limiter].
func (s *Store) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	keys, err := s.admit(ctx)
	if err == nil {
		err = c.Validate()
	}
	if err == nil {
		err = headgate.ValidateRefund(c.Cost, r)
	}
	if err != nil {
		return err
	}
	a, receipt, err := s.refund(keys, &c, r)
	if err != nil {
		return err
	}
	_, _, _, err = s.step(ctx, opGive, &a, receipt)
	return err
}

// refund prepares what Give asks, and returns the last argument of its script.
func (s *Store) refund(keys *keyMaker, c *headgate.Check, r headgate.Receipt) (ask, string, error) {
	part, share := drawn(c, r)
	a, err := s.ask(keys, share, part)
	if err != nil {
		return ask{}, "", err
	}
	a.lease = r.Lease
	return a, decimal(a.plan.LuaReceipt(r)), nil
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
		all := make([]string, 0, len(kindLetters))
		for _, letter := range kindLetters {
			all = append(all, key+string(letter))
		}
		commands = append(commands, s.conn.b().Unlink().Key(all...).Build())
	}
	for i, result := range s.conn.doMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return s.conn.explain(err, s.conn.shardOf(s.conn.slotOf(names[i])))
		}
	}
	return nil
}

// Shard names the server that decides a check, for those who keep account of servers. Keys that are counted in parts
// are on many, and have a name of their own.
func (s *Store) Shard(c headgate.Check) string {
	if partsOf(&c) > 1 {
		return "split keys"
	}
	keys := s.keys.Load()
	if keys == nil || !s.conn.clustered() {
		return s.conn.shardOf(0)
	}
	return s.conn.shardOf(s.conn.slotOf(keys.key(c.Owner, c.Key, unsplit)))
}

package redisstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/redistest"
)

var newSecret = []byte("the secret that replaces it, also 32")

// withSecrets returns a store that shares connections with base and keys with stores of the same prefix and secret.
func withSecrets(base *Store, prefix string, now func() time.Time, secrets ...[]byte) *Store {
	s := withClock(base, now)
	s.prefix = prefix
	keys := newKeyMaker(prefix, secrets[0])
	if len(secrets) > 1 {
		keys.second = newKeyMaker(prefix, secrets[1])
	}
	s.keys.Store(keys)
	return s
}

// A rotation is a history of decisions while the secret is replaced, and the same history without a rotation.
type rotation struct {
	*testing.T
	random *rand.Rand
	now    time.Time
	stores []*Store // that decide now, at random
	alone  *Store   // has one secret throughout
	limit  headgate.Limit
	split  int
	held   []heldUnits
}

// heldUnits were taken and may be given back, by any store.
type heldUnits struct {
	check       headgate.Check
	got, wanted headgate.Receipt
}

func (r *rotation) check() headgate.Check {
	return headgate.Check{
		Owner: "client", Key: fmt.Sprint("key", r.random.IntN(3)), Limit: r.limit, Cost: 1 + r.random.Int64N(4), Split: r.split,
	}
}

// step makes a random step on both sides and compares the decisions.
func (r *rotation) step() {
	r.Helper()
	s := r.stores[r.random.IntN(len(r.stores))]
	c := r.check()
	switch n := r.random.IntN(10); {
	case n == 0 && len(r.held) > 0:
		r.giveOne(s)
	case n == 1 && r.limit.Algorithm != headgate.Concurrency:
		got, err := s.Charge(ctx, c)
		want, wantErr := r.alone.Charge(ctx, c)
		r.compare("charge", got, want, err, wantErr)
	case n == 2:
		got, err := s.Peek(ctx, c)
		want, wantErr := r.alone.Peek(ctx, c)
		r.compare("peek", got, want, err, wantErr)
	case n == 3 && algorithm.Grantable(r.limit.Algorithm):
		got, err := s.Grant(ctx, c, 10, 2)
		want, wantErr := r.alone.Grant(ctx, c, 10, 2)
		r.compare("grant", got, want, err, wantErr)
		if got.Receipt.Units != want.Receipt.Units {
			r.Fatalf("got %d units granted, want %d", got.Receipt.Units, want.Receipt.Units)
		}
	case n < 6:
		checks := []headgate.Check{c, c}
		checks[1].Key, checks[1].Cost = "all", 1
		got, err := s.TakeAll(ctx, checks, nil)
		want, wantErr := r.alone.TakeAll(ctx, checks, nil)
		for i := range want {
			r.compare("take all", got[i], want[i], err, wantErr)
			r.hold(checks[i], got[i], want[i])
		}
	default:
		got, err := s.Take(ctx, c)
		want, wantErr := r.alone.Take(ctx, c)
		r.compare("take", got, want, err, wantErr)
		r.hold(c, got, want)
	}
	r.now = r.now.Add(time.Duration(r.random.Int64N(int64(20 * time.Second))))
}

func (r *rotation) hold(c headgate.Check, got, want headgate.Decision) {
	if got.Receipt.Units > 0 {
		c.Cost = got.Receipt.Units
		r.held = append(r.held, heldUnits{c, got.Receipt, want.Receipt})
	}
}

func (r *rotation) giveOne(s *Store) {
	r.Helper()
	h := r.held[0]
	r.held = r.held[1:]
	if err := s.Give(ctx, h.check, h.got); err != nil {
		r.Fatal(err)
	}
	if err := r.alone.Give(ctx, h.check, h.wanted); err != nil {
		r.Fatal(err)
	}
}

func (r *rotation) compare(op string, got, want headgate.Decision, err, wantErr error) {
	r.Helper()
	if err != nil || wantErr != nil {
		r.Fatalf("%s: errors %v and %v", op, err, wantErr)
	}
	if got.Allowed != want.Allowed || got.Remaining != want.Remaining || got.RetryAfter != want.RetryAfter {
		r.Fatalf("%s of %v at %v:\n got %+v\nwant %+v", op, r.limit, r.now, got, want)
	}
}

// rotate makes a history in which stores get the new secret as well, then lose the old one, one after the other.
func rotate(t *testing.T, base *Store, limit headgate.Limit) {
	r := &rotation{T: t, random: rand.New(rand.NewPCG(1, uint64(limit.Algorithm))), now: time.Unix(1_700_000_000, 0), limit: limit}
	now := func() time.Time { return r.now }
	prefix := fmt.Sprint("rotate", namespaces.Add(1))
	before := withSecrets(base, prefix, now, testSecret)
	oldFirst := withSecrets(base, prefix, now, testSecret, newSecret)
	newFirst := withSecrets(base, prefix, now, newSecret, testSecret)
	after := withSecrets(base, prefix, now, newSecret)
	r.alone = withSecrets(base, prefix+"-alone", now, testSecret)
	const steps = 60
	for _, stores := range [][]*Store{
		{before}, {before, oldFirst}, {oldFirst}, {oldFirst, newFirst}, {newFirst}, {newFirst, after}, {after},
	} {
		r.stores = stores
		n := steps
		if slices.Equal(stores, []*Store{oldFirst}) { // until nothing counts any more that was consumed without the new secret
			n *= 10
		}
		for range n {
			r.step()
		}
	}
}

func TestRotationOfTheSecretChangesNoDecision(t *testing.T) {
	t.Parallel()
	base := open(t, redistest.Standalone(t, redistest.Options{}).URL(), Options{Secret: testSecret})
	for _, a := range headgate.Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			limit := headgate.Limit{Algorithm: a, Count: 20, Period: 5 * time.Minute}
			if a == headgate.Concurrency {
				limit = headgate.Limit{Algorithm: a, Count: 20, TTL: 5 * time.Minute}
			}
			rotate(t, base, limit)
		})
	}
}

func testRotationOnACluster(t *testing.T, cluster *redistest.ClusterSet) {
	base := open(t, cluster.URL(), Options{Secret: testSecret})
	rotate(t, base, headgate.MustParseLimit("20/5m"))

	now := func() time.Time { return time.Unix(1_700_000_000, 0) }
	split := headgate.Check{Key: "hot", Limit: headgate.PerHour(100), Cost: 1, Split: 4}
	before := withSecrets(base, "split", now, testSecret)
	both := withSecrets(base, "split", now, testSecret, newSecret)
	var receipts []headgate.Receipt
	for i := range 150 {
		if d := mustTake(t, []*Store{before, both}[i%2], split); d.Allowed {
			receipts = append(receipts, d.Receipt)
		}
	}
	if n := len(receipts); n < 80 || n > 100 {
		t.Errorf("got %d of a split key admitted, want 80 to 100", n)
	}
	for _, r := range receipts {
		if err := both.Give(ctx, split, r); err != nil {
			t.Fatal(err)
		}
	}
	split.Cost = 0
	for range 20 {
		if d := mustTake(t, both, split); d.Remaining != 100 {
			t.Fatalf("got %d left after all was given back, want 100", d.Remaining)
		}
	}
	testShardsOfTwoSecrets(t, both)
}

// testShardsOfTwoSecrets checks the names of the servers that decide a check: it fails if one of them is down.
func testShardsOfTwoSecrets(t *testing.T, s *Store) {
	t.Helper()
	names := make(map[string]bool)
	for i := range 100 {
		name := s.Shard(headgate.Check{Key: fmt.Sprint("key", i)})
		names[name] = true
		if err := s.Probe(within(t, unhurried), name); err != nil {
			t.Errorf("probe of %s: %v", name, err)
		}
		if got := len(s.primaries(name)); got != len(shardNames(name)) {
			t.Errorf("got %d primaries of %s", got, name)
		}
	}
	if len(names) < 6 { // 3 with one server, 6 with two
		t.Errorf("got only %d names: %v", len(names), names)
	}
}

// A lease may be held for longer than a rotation takes, so renewing it adds it to the key that lacks it.
func TestRenewedLeaseSurvivesARotation(t *testing.T) {
	t.Parallel()
	base := open(t, redistest.Standalone(t, redistest.Options{}).URL(), Options{Secret: testSecret})
	now := func() time.Time { return time.Unix(1_700_000_000, 0) }
	before := withSecrets(base, "lease", now, testSecret)
	both := withSecrets(base, "lease", now, testSecret, newSecret)
	after := withSecrets(base, "lease", now, newSecret)
	c := headgate.Check{Key: "alice", Limit: headgate.Limit{Algorithm: headgate.Concurrency, Count: 1, TTL: time.Minute}, Cost: 1}
	receipt := mustTake(t, before, c).Receipt
	for _, s := range []*Store{both, after} {
		if held, err := s.Renew(ctx, c, receipt); err != nil || !held {
			t.Errorf("renew: got %v, %v, want it held", held, err)
		}
		if mustTake(t, s, c).Allowed {
			t.Error("got a second lease, want one")
		}
	}
	if err := after.Give(ctx, c, receipt); err != nil || !mustTake(t, after, c).Allowed {
		t.Errorf("got no lease after the release, %v", err)
	}
}

func TestResetForgetsUnderBothSecrets(t *testing.T) {
	t.Parallel()
	base := open(t, redistest.Standalone(t, redistest.Options{}).URL(), Options{Secret: testSecret})
	both := withSecrets(base, "reset", nil, testSecret, newSecret)
	c := headgate.Check{Key: "alice", Limit: headgate.PerHour(1), Cost: 1}
	mustTake(t, both, c)
	if err := both.Reset(ctx, c); err != nil {
		t.Fatal(err)
	}
	if !mustTake(t, both, c).Allowed {
		t.Error("denied after a reset")
	}
}

func TestSecondSecretMustDiffer(t *testing.T) {
	for _, o := range []Options{
		{SecondSecret: newSecret}, {Secret: testSecret, SecondSecret: []byte("short")}, {Secret: testSecret, SecondSecret: testSecret},
	} {
		if err := o.validate(); err == nil {
			t.Errorf("%+v: got no error", o)
		}
	}
	if err := (&Options{Secret: testSecret, SecondSecret: newSecret}).validate(); err != nil {
		t.Error(err)
	}
}

package grpcapi

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/logbook"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/service"
)

func operation(verb headgatev1.Verb, keys ...string) *headgatev1.Operation {
	op := &headgatev1.Operation{Verb: verb}
	for _, key := range keys {
		op.Checks = append(op.Checks, &headgatev1.Check{
			Key: []byte(key), Limit: &headgatev1.Limit{Count: 3, PeriodNs: 3_600_000_000_000}, Cost: 1,
		})
	}
	return op
}

const (
	take   = headgatev1.Verb_VERB_UNSPECIFIED
	charge = headgatev1.Verb_VERB_CHARGE
	give   = headgatev1.Verb_VERB_GIVE
	reset  = headgatev1.Verb_VERB_RESET
)

func do(t *testing.T, store headgatev1.StoreClient, ops ...*headgatev1.Operation) []*headgatev1.Result {
	t.Helper()
	got, err := store.Do(patient(t), &headgatev1.DoRequest{Operations: ops})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Results) != len(ops) {
		t.Fatalf("got %d results of %d operations", len(got.Results), len(ops))
	}
	return got.Results
}

func TestStoreIsOffByDefault(t *testing.T) {
	_, address := start(t, Config{})
	_, err := headgatev1.NewStoreClient(dial(t, address)).Do(patient(t), &headgatev1.DoRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v, want Unimplemented", err)
	}
}

func TestOperationsFailIndependently(t *testing.T) {
	for name, parallel := range map[string]int{"one by one": 1, "side by side": 8} {
		t.Run(name, func(t *testing.T) {
			_, address := start(t, Config{Store: newStore(t, nil), Parallel: parallel})
			store := headgatev1.NewStoreClient(dial(t, address))
			first := do(t, store, operation(take, "a"), operation(take, "b", "c"), operation(charge, "d"), operation(take))
			for i, want := range []int{1, 2, 1, 0} {
				if r := first[i]; r.Failure != nil || len(r.Decisions) != want {
					t.Fatalf("%d: got %v, want %d decisions", i, r, want)
				}
				for _, d := range first[i].Decisions {
					if !d.Allowed || d.Limit != 3 || d.Remaining != 2 || d.Receipt.GetUnits() != 1 {
						t.Errorf("%d: got %v, want 2 of 3 left and a receipt", i, d)
					}
				}
			}
			back := operation(give, "a")
			back.Receipt = first[0].Decisions[0].Receipt
			if r := do(t, store, back)[0]; r.Failure != nil || len(r.Decisions) != 0 {
				t.Errorf("give: got %v", r)
			}
			if r := do(t, store, operation(take, "a"))[0]; r.Decisions[0].Remaining != 2 {
				t.Errorf("after giving back: got %v, want 2 left", r)
			}
		})
	}
}

func TestInvalidOperationsGetAnError(t *testing.T) {
	store := newStore(t, nil)
	_, address := start(t, Config{Store: store})
	client := headgatev1.NewStoreClient(dial(t, address))
	bad := func(change func(*headgatev1.Check)) *headgatev1.Operation {
		op := operation(take, "k")
		change(op.Checks[0])
		return op
	}
	held := operation(charge, "k")
	held.Checks[0].Limit = &headgatev1.Limit{Algorithm: headgatev1.Algorithm_ALGORITHM_CONCURRENCY, Count: 1}
	many := make([]string, headgate.MaxChecks+1)
	for i := range many {
		many[i] = strings.Repeat("k", i+1)
	}
	for name, tt := range map[string]struct {
		op    *headgatev1.Operation
		want  headgatev1.Fault
		field string
	}{
		"no key":               {bad(func(c *headgatev1.Check) { c.Key = nil }), headgatev1.Fault_FAULT_INVALID_CHECK, "Key"},
		"a long key":           {bad(func(c *headgatev1.Check) { c.Key = make([]byte, headgate.MaxKeyBytes+1) }), headgatev1.Fault_FAULT_INVALID_CHECK, "Key"},
		"a long owner":         {bad(func(c *headgatev1.Check) { c.Owner = make([]byte, headgate.MaxKeyBytes+1) }), headgatev1.Fault_FAULT_INVALID_CHECK, "Owner"},
		"no limit":             {bad(func(c *headgatev1.Check) { c.Limit = nil }), headgatev1.Fault_FAULT_INVALID_LIMIT, "Count"},
		"an unknown algorithm": {bad(func(c *headgatev1.Check) { c.Limit.Algorithm = 256 }), headgatev1.Fault_FAULT_INVALID_LIMIT, "Algorithm"},
		"a negative algorithm": {bad(func(c *headgatev1.Check) { c.Limit.Algorithm = -1 }), headgatev1.Fault_FAULT_INVALID_LIMIT, "Algorithm"},
		"an odd period":        {bad(func(c *headgatev1.Check) { c.Limit.PeriodNs = 1500 }), headgatev1.Fault_FAULT_INVALID_LIMIT, "Period"},
		"an unknown policy":    {bad(func(c *headgatev1.Check) { c.OnFailure = 300 }), headgatev1.Fault_FAULT_INVALID_CHECK, "OnFailure"},
		"an unknown verb":      {operation(99, "k"), headgatev1.Fault_FAULT_INVALID_CHECK, "operation"},
		"two checks to charge": {operation(charge, "k", "l"), headgatev1.Fault_FAULT_INVALID_CHECK, "operation"},
		"none to give":         {operation(give), headgatev1.Fault_FAULT_INVALID_CHECK, "operation"},
		"a key twice":          {operation(take, "k", "k"), headgatev1.Fault_FAULT_INVALID_CHECK, "Key"},
		"too many at once":     {operation(take, many...), headgatev1.Fault_FAULT_INVALID_CHECK, "checks"},
		"units never taken":    {operation(give, "k"), headgatev1.Fault_FAULT_INVALID_CHECK, "Cost"},
		"a place to charge":    {held, headgatev1.Fault_FAULT_UNSUPPORTED, ""},
		"no token to reset":    {operation(reset, "k"), headgatev1.Fault_FAULT_FORBIDDEN, ""},
	} {
		got := do(t, client, operation(take, "good"), tt.op)
		if got[0].Failure != nil {
			t.Errorf("%s: its neighbour failed: %v", name, got[0].Failure)
		}
		if f := got[1].Failure; f.GetFault() != tt.want || f.GetField() != tt.field || f.GetMessage() == "" {
			t.Errorf("%s: got %v, want %v of %q", name, got[1], tt.want, tt.field)
		}
	}
	giant := &headgatev1.DoRequest{}
	for range DefaultMaxBatch + 1 {
		giant.Operations = append(giant.Operations, operation(take, "k"))
	}
	if _, err := client.Do(patient(t), giant); status.Code(err) != codes.InvalidArgument {
		t.Errorf("too many operations: got %v, want InvalidArgument", err)
	}
}

func TestResetNeedsAToken(t *testing.T) {
	_, address := start(t, Config{Store: newStore(t, nil), Token: newToken(t)})
	client := headgatev1.NewStoreClient(dial(t, address))
	ctx := withToken(patient(t))
	for range 3 {
		got, err := client.Do(ctx, &headgatev1.DoRequest{Operations: []*headgatev1.Operation{operation(take, "k"), operation(reset, "k")}})
		if err != nil || got.Results[0].Decisions[0].Remaining != 2 || got.Results[1].Failure != nil {
			t.Fatalf("got %v, %v; want a new key each time", got, err)
		}
	}
}

func TestAdminTokenMayReset(t *testing.T) {
	admin, err := service.NewToken("administrator-0123456789")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config  Config
		shown   string
		refused bool
	}{
		"admin":                        {Config{AdminToken: admin}, "administrator-0123456789", false},
		"nothing":                      {Config{AdminToken: admin}, "", true},
		"another":                      {Config{AdminToken: admin}, tokenText, true},
		"admin where callers need one": {Config{AdminToken: admin, Token: newToken(t)}, "administrator-0123456789", false},
		"the callers' own":             {Config{AdminToken: admin, Token: newToken(t)}, tokenText, false},
		"where there is none":          {Config{}, "administrator-0123456789", true},
	} {
		c.config.Store = newStore(t, nil)
		_, address := start(t, c.config)
		ctx := patient(t)
		if c.shown != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.shown)
		}
		got, err := headgatev1.NewStoreClient(dial(t, address)).Do(ctx, &headgatev1.DoRequest{Operations: []*headgatev1.Operation{operation(reset, "k")}})
		if err != nil {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		if fault := got.Results[0].GetFailure().GetFault(); c.refused != (fault == headgatev1.Fault_FAULT_FORBIDDEN) {
			t.Errorf("%s: got %v, want refused %t", name, got, c.refused)
		}
	}
}

// A failing store fails.
type failingStore struct{ headgate.Limiter }

func (failingStore) Take(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, errors.New("secret detail")
}

func TestStoreFaultsAreLoggedNotSent(t *testing.T) {
	log := new(logbook.Book)
	_, address := start(t, Config{Store: failingStore{newStore(t, nil)}, Logger: log.Logger()})
	got := do(t, headgatev1.NewStoreClient(dial(t, address)), operation(take, "k"))
	if f := got[0].Failure; f.GetFault() != headgatev1.Fault_FAULT_UNAVAILABLE || strings.Contains(f.GetMessage(), "secret") {
		t.Errorf("got %v, want unavailable without details", f)
	}
	if !strings.Contains(log.String(), "secret detail") {
		t.Errorf("log: got %q, want the detail", log.String())
	}
}

// Callers of the store cannot touch the counters of rules, with any key of any length.
func TestKeysOfCallersAndRulesAreSeparate(t *testing.T) {
	store := newStore(t, nil)
	seen := &seeing{Limiter: store}
	set := parseRules(t, ruleText)
	e, err := engine.New(engine.Config{Store: seen, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	_, address := start(t, Config{Engine: e, Store: store, Token: newToken(t)})
	conn := dial(t, address)
	ctx := withToken(patient(t))
	if _, err := headgatev1.NewRateLimiterClient(conn).RateLimit(ctx, ask("olga", "/api/x")); err != nil {
		t.Fatal(err)
	}
	if len(seen.keys) == 0 {
		t.Fatal("the rule asked for no key")
	}
	client := headgatev1.NewStoreClient(conn)
	for _, key := range seen.keys {
		for _, op := range []*headgatev1.Operation{operation(charge, key), operation(reset, key)} {
			if got, err := client.Do(ctx, &headgatev1.DoRequest{Operations: []*headgatev1.Operation{op}}); err != nil || got.Results[0].Failure != nil {
				t.Fatalf("got %v, %v", got, err)
			}
		}
	}
	got, err := headgatev1.NewRateLimiterClient(conn).RateLimit(ctx, ask("olga", "/api/x"))
	if err != nil || got.RemainingRequests != 1 {
		t.Errorf("got %v, %v; want 1 left: what the store did has no effect", got, err)
	}
	long, longer := strings.Repeat("k", headgate.MaxKeyBytes), strings.Repeat("k", headgate.MaxKeyBytes-1)
	for _, key := range []string{long, longer, long[1:] + "l"} {
		got, err := client.Do(ctx, &headgatev1.DoRequest{Operations: []*headgatev1.Operation{operation(take, key)}})
		if err != nil || got.Results[0].GetFailure() != nil || got.Results[0].Decisions[0].Remaining != 2 {
			t.Errorf("a key of %d: got %v, %v; want a counter of its own", len(key), got, err)
		}
	}
}

// A seeing store records keys.
type seeing struct {
	headgate.Limiter
	keys []string
}

func (s *seeing) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	s.keys = append(s.keys, strings.Clone(c.Key))
	return s.Limiter.Take(ctx, c)
}

func (s *seeing) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	for _, c := range checks {
		s.keys = append(s.keys, strings.Clone(c.Key))
	}
	return s.Limiter.TakeAll(ctx, checks, dst)
}

// Keys of rules never begin like keys of callers, because ids and namespaces cannot.
func TestRuleKeysNeverLookLikeCallerKeys(t *testing.T) {
	for _, sign := range []string{keyPrefix, hashedKeyPrefix} {
		for _, r := range []rules.Rule{{ID: sign + "x"}, {ID: "x", Namespace: sign + "x"}} {
			r.Limits = []rules.Limit{{Limit: headgate.PerSecond(1)}}
			if _, err := match.Compile([]rules.Rule{r}); err == nil {
				t.Errorf("a rule %q of namespace %q: got no error", r.ID, r.Namespace)
			}
		}
	}
}

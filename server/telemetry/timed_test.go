package telemetry_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/telemetry"
)

// remote makes a store in memory look like one elsewhere.
type remote struct {
	*memstore.Store
	probed string
}

var _ telemetry.Remote = (*remote)(nil)

func (r *remote) Shard(headgate.Check) string { return "shard-1" }

func (r *remote) Grant(ctx context.Context, c headgate.Check, want, _ int64) (headgate.Decision, error) {
	c.Cost = max(c.Cost, want)
	return r.Take(ctx, c)
}

func (r *remote) Probe(_ context.Context, shard string) error {
	r.probed = shard
	return nil
}

func TestTimedStoreMeasuresCalls(t *testing.T) {
	ctx := context.Background()
	m := telemetry.New("test")
	inner := &remote{Store: memory(t)}
	s := m.Timed("redis", inner)
	check := headgate.Check{Key: "alice", Limit: headgate.PerSecond(2), Cost: 1}
	d, err := s.Take(ctx, check)
	if err != nil || !d.Allowed || d.Remaining != 1 {
		t.Errorf("Take: got %+v, %v", d, err)
	}
	list, err := s.TakeAll(ctx, []headgate.Check{check}, nil)
	if err != nil || len(list) != 1 || list[0].Remaining != 0 {
		t.Errorf("TakeAll: got %+v, %v", list, err)
	}
	if err := s.Give(ctx, check, d.Receipt); err != nil {
		t.Error(err)
	}
	if _, err := s.Charge(ctx, check); err != nil {
		t.Error(err)
	}
	if err := s.Reset(ctx, check); err != nil {
		t.Error(err)
	}
	if d, err := s.Grant(ctx, check, 2, 1); err != nil || d.Receipt.Units != 2 {
		t.Errorf("Grant: got %+v, %v", d, err)
	}
	if got := s.Shard(check); got != "shard-1" {
		t.Errorf("Shard: got %q", got)
	}
	if err := s.Probe(ctx, "shard-2"); err != nil || inner.probed != "shard-2" {
		t.Errorf("Probe: got %q, %v", inner.probed, err)
	}
	if err := inner.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Take(ctx, check); !errors.Is(err, headgate.ErrClosed) {
		t.Errorf("got %v, want %v", err, headgate.ErrClosed)
	}
	expect(t, scrape(t, m), map[string]string{
		`headgate_store_seconds_count{op="take",store="redis"}`:     "2",
		`headgate_store_seconds_count{op="take_all",store="redis"}`: "1",
		`headgate_store_seconds_count{op="give",store="redis"}`:     "1",
		`headgate_store_seconds_count{op="charge",store="redis"}`:   "1",
		`headgate_store_seconds_count{op="reset",store="redis"}`:    "1",
		`headgate_store_seconds_count{op="grant",store="redis"}`:    "1",
		`headgate_store_errors_total{op="take",store="redis"}`:      "1",
		`headgate_store_errors_total{op="take_all",store="redis"}`:  "0",
	})
}

// A guard asks a store what it can do besides deciding. What stands between the two must not hide any of it.
func TestTimedStoreHasAllGuardMethods(t *testing.T) {
	inner := new(redisstore.Store)
	timed := reflect.TypeOf(telemetry.New("test").Timed("redis", inner))
	wanted := methodsThatAGuardAsksFor(t)
	for _, name := range []string{"Shard", "Probe", "Grant", "HasUnread"} {
		if wanted[name] == "" {
			t.Errorf("%s is in none of guard's interfaces: this test looks in the wrong place", name)
		}
	}
	for name, of := range wanted {
		theirs, ok := reflect.TypeOf(inner).MethodByName(name)
		if !ok {
			continue
		}
		got, ok := timed.MethodByName(name)
		switch {
		case !ok:
			t.Errorf("the store has %s, of guard.%s, and the timed one has not", name, of)
		case got.Type.NumIn() != theirs.Type.NumIn() || got.Type.NumOut() != theirs.Type.NumOut():
			t.Errorf("%s of guard.%s: got %v, want what the store has: %v", name, of, got.Type, theirs.Type)
		}
	}
}

// methodsThatAGuardAsksFor returns the methods of the interfaces that package guard has for stores, each with the
// interface's name.
func methodsThatAGuardAsksFor(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../redisstore/guard/*.go")
	if err != nil {
		t.Fatal(err)
	}
	methods := make(map[string]string)
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() {
				return true
			}
			if i, ok := spec.Type.(*ast.InterfaceType); ok {
				for _, m := range i.Methods.List {
					for _, name := range m.Names {
						methods[name.Name] = spec.Name.Name
					}
				}
			}
			return false
		})
	}
	return methods
}

func (r *remote) LastSent(string) time.Time     { return time.Time{} }
func (r *remote) LastReceived(string) time.Time { return time.Time{} }
func (r *remote) HasUnread(string) bool         { return false }

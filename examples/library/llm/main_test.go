package main

import (
	"context"
	"errors"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

func TestBudgetIsWhatWasUsed(t *testing.T) {
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	budget := headgate.MustBind(store, headgate.MustParseLimit("1000/d"))
	uses := func(tokens int64) model {
		return func(context.Context, string) (string, int64, error) { return "hello", tokens, nil }
	}
	for used, want := range map[int64]int64{20: 980, 1500: -500} {
		if err := budget.Reset(t.Context(), "alice"); err != nil {
			t.Fatal(err)
		}
		if _, err := ask(t.Context(), budget, uses(used), "alice", "hi"); err != nil {
			t.Errorf("%d used: %v", used, err)
		}
		if d, err := budget.Peek(t.Context(), "alice", 0); err != nil || d.Remaining != want {
			t.Errorf("%d used: got %d left, %v, want %d", used, d.Remaining, err, want)
		}
	}
	if err := budget.Reset(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	if _, err := budget.Charge(t.Context(), "alice", 1500); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t.Context(), budget, uses(1), "alice", "hi"); !errors.Is(err, errOverBudget) {
		t.Errorf("in debt: got %v, want %v", err, errOverBudget)
	}
}

// Command llm gives each user a budget of tokens: it takes an estimate, and settles what a prompt really used.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

var errOverBudget = errors.New("over budget")

// A model answers a prompt, and says how many tokens that used.
type model func(ctx context.Context, prompt string) (answer string, tokens int64, err error)

// ask answers a prompt of a user within the budget.
func ask(ctx context.Context, budget *headgate.Bound, m model, user, prompt string) (string, error) {
	estimate := int64(100 + len(prompt)/4)
	d, err := budget.Take(ctx, user, estimate)
	if err != nil {
		return "", err
	}
	if !d.Allowed {
		return "", fmt.Errorf("%w: retry after %v", errOverBudget, d.RetryAfter)
	}
	answer, used, err := m(ctx, prompt)
	return answer, errors.Join(err, budget.Settle(ctx, user, d.Receipt, used))
}

func main() {
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	budget := headgate.MustBind(store, headgate.MustParseLimit("1000/m"))
	echo := func(_ context.Context, prompt string) (string, int64, error) { return prompt, 600, nil }
	for range 3 {
		answer, err := ask(context.Background(), budget, echo, "alice", "hello")
		if err != nil {
			log.Print(err)
			continue
		}
		fmt.Println(answer)
	}
}

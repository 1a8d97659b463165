// Command llm gives each user a budget of tokens. It takes the estimated number of tokens before it runs a prompt, and
// corrects that to the tokens that the prompt used.
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

// A model answers a prompt, and returns the number of tokens that it used, even if it fails.
type model func(ctx context.Context, prompt string) (answer string, tokens int64, err error)

// ask answers a prompt of a user within the budget.
func ask(ctx context.Context, budget *headgate.Bound, m model, user, prompt string) (string, error) {
	estimate := int64(len(prompt)/4 + 100) // about 4 bytes per token of the prompt, and 100 tokens for the answer
	d, err := budget.Take(ctx, user, estimate)
	if err != nil {
		return "", err
	}
	if !d.Allowed {
		return "", fmt.Errorf("%w: retry after %v", errOverBudget, d.RetryAfter)
	}
	answer, used, err := m(ctx, prompt)
	// Settle a failed prompt, too: it used fewer tokens than estimated, perhaps none. Settle works even if ctx has ended.
	return answer, errors.Join(err, budget.Settle(ctx, user, d.Receipt, used))
}

func main() {
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	budget := headgate.MustBind(store, headgate.MustParseLimit("1000/m"))
	// Two prompts of 600 tokens exceed the budget of 1000, so the third prompt is denied.
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

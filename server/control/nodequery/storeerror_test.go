package nodequery

import (
	"errors"
	"fmt"
	"testing"
)

func TestErrorsOfStoresAreInPlainWords(t *testing.T) {
	down := errors.New("take on 10.0.0.5:6379: the store is unavailable: redisstore: 10.0.0.5:6379: is unreachable: nothing listens " +
		"there (dial tcp 10.0.0.5:6379: connect: connection refused): start it, or check host and port in the URL")
	const reason = "Redis 10.0.0.5:6379 is unreachable: nothing listens there: start it, or check host and port in the URL"
	of := func(rule string) error { return fmt.Errorf("engine: explain rule %s: %w", rule, down) }
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errors.Join(of("search")), "what remains under the rule search is not known: " + reason},
		{errors.Join(errors.Join(of("a")), errors.Join(of("b"), of("c"), of("d"))), "what remains under the rules a, b, c and 1 more is not known: " + reason},
		{errors.Join(down, down), reason},
		{fmt.Errorf("engine: reset the counters of rule a: %w", down), "the consumption under the rule a was not reset: " + reason},
		{errors.New("the node is stopping"), "the node is stopping"},
	} {
		if got := StoreErrorText(tt.err); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

package algorithm_test

import (
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// packageExample is the example of the package comment.
func packageExample() error {
	plan, err := algorithm.NewPlan(headgate.PerSecond(10))
	if err != nil {
		return err
	}
	var alice algorithm.State
	for now := int64(0); now < 3_000_000; now += 50_000 {
		var d headgate.Decision
		alice, d = plan.Take(alice, now, 1, 0) // only concurrency uses the lease, here 0
		fmt.Println(d.Allowed, d.Remaining)
	}
	return nil
}

var _ = packageExample

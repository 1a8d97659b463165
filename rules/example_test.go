package rules_test

import (
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// The cost in a request header is kept within bounds.
func ExampleCost_Initial() {
	batch := rules.Rule{
		ID:     "batch",
		Cost:   rules.Cost{Header: "X-Batch-Size", Max: 100},
		Limits: []rules.Limit{{Limit: headgate.PerMinute(1000)}},
	}
	batch = batch.WithDefaults()
	size := headgate.Attribute{Kind: headgate.AttrHeader, Name: "x-batch-size"}
	for _, says := range []string{"7", "1000000", "-1", "many"} {
		fmt.Println(says, "costs", batch.Cost.Initial(rules.Attributes{size: says}))
	}
	// Output:
	// 7 costs 7
	// 1000000 costs 100
	// -1 costs 1
	// many costs 1
}

func ExampleCompatible() {
	for _, algorithm := range []headgate.Algorithm{headgate.TokenBucket, headgate.Concurrency} {
		if ok, why := rules.Compatible(rules.Lease, algorithm); ok {
			fmt.Println(algorithm, "is supported")
		} else {
			fmt.Println(algorithm, "is not:", why)
		}
	}
	// Output:
	// token-bucket is supported
	// concurrency is not: slots are held and released, not consumed, so they cannot be leased in advance
}

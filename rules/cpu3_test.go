package rules_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

func BenchmarkOnePath(b *testing.B) {
	dst := make([]rules.Matched, 0, 16)
	r := requests(1024, 300)[4]
	set := compile(b, []rules.Rule{{ID: "x", Key: []headgate.Attribute{user}, When: rules.Condition{Tests: []rules.Test{{path, []string{"/shop/**"}}}}, Limits: []rules.Limit{{Limit: headgate.PerSecond(1)}}}})
	for b.Loop() {
		dst = set.Match(r, dst[:0])
	}
}

package rules_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// One letter per algorithm, in the order of their numbers: x is supported, - is not. Algorithms without a letter are
// supported by the modes in which a store decides alone.
func TestAlgorithmsThatAModeSupports(t *testing.T) {
	for mode, row := range map[rules.Consistency]string{
		//               tlgFLWBc
		rules.ByStore: "xxxxxxxx",
		rules.Exact:   "xxxxxxxx",
		rules.Lease:   "x-xx-x--",
		rules.Async:   "x-xx-x--",
		rules.Gossip:  "x-xx-x--",
		rules.Local:   "xxxxxxxx",
	} {
		for _, algorithm := range headgate.Algorithms() {
			want := mode == rules.ByStore || mode == rules.Exact || mode == rules.Local
			if int(algorithm) < len(row) {
				want = row[algorithm] == 'x'
			}
			ok, why := rules.Compatible(mode, algorithm)
			if ok != want || ok != (why == "") {
				t.Errorf("%s and %s: got %v (%q), want %v", mode, algorithm, ok, why, want)
			}
			limit := headgate.Limit{Algorithm: algorithm, Count: 10, Period: 1e9}
			if algorithm == headgate.Concurrency {
				limit.Period = 0
			}
			err := rules.Validate([]rules.Rule{{ID: "a", Consistency: mode, Limits: []rules.Limit{{Limit: limit}}}})
			if (err == nil) != want || err != nil && !strings.Contains(err.Error(), why) {
				t.Errorf("a rule with %s and %s: got %v", mode, algorithm, err)
			}
		}
	}
}

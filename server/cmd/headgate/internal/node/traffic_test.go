package node

import (
	"testing"

	"github.com/headgate/headgate/server/telemetry/traffic"
)

// While the rules service is unreachable, a node keeps ten minutes of 100 rules, and less of more rules.
func TestUnsentTrafficIsBounded(t *testing.T) {
	for name, test := range map[string]struct{ rules, want int }{
		"few rules":  {rules: 100, want: maxUnsent},
		"many rules": {rules: 1000, want: maxUnsentRows / 1000},
	} {
		var reporter trafficReporter
		for unix := range int64(maxUnsent + 100) {
			rows := make([]traffic.Row, test.rules)
			reporter.add(&traffic.Report{Seconds: []traffic.Second{{Unix: unix, Rows: rows}}})
		}
		if got := len(reporter.seconds); got != test.want {
			t.Errorf("%s: got %d seconds, want %d", name, got, test.want)
		}
		if last := reporter.seconds[len(reporter.seconds)-1].Unix; last != maxUnsent+99 {
			t.Errorf("%s: got %d as the last second, want %d", name, last, maxUnsent+99)
		}
	}
}

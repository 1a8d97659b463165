package fleet

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/bench/harness"
)

func TestALongRunIsToldWithWhatItSaidAndWhetherItHeld(t *testing.T) {
	var table harness.FleetTable
	test := fleetSoaks()[0]
	addSoak(&table, test, &harness.TestRow{Passed: true, Said: []string{"99 % of the limit", "a | b"}})
	addSoak(&table, test, &harness.TestRow{Said: []string{"101 % of the limit"}})
	if got, want := table.Rows[0][1], `99 % of the limit<br>a \| b`; got != want {
		t.Errorf("measured: got %q, want %q", got, want)
	}
	if table.Bars[0].Verdict != harness.Met || table.Bars[1].Verdict != harness.NotMet {
		t.Errorf("bars: got %+v, want one that is met and one that is not", table.Bars)
	}
	for _, test := range fleetSoaks() {
		if !strings.HasPrefix(test.Name, "TestSoak") {
			t.Errorf("%s is no long test", test.Name)
		}
	}
}

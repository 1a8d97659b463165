package main

import (
	"strings"
	"testing"
)

func TestALongRunIsToldWithWhatItSaidAndWhetherItHeld(t *testing.T) {
	var table fleetTable
	test := fleetSoaks()[0]
	table.add(test, &faultRow{Passed: true, Said: []string{"99 % of the limit", "a | b"}})
	table.add(test, &faultRow{Said: []string{"101 % of the limit"}})
	if got, want := table.Rows[0][1], `99 % of the limit<br>a \| b`; got != want {
		t.Errorf("measured: got %q, want %q", got, want)
	}
	if table.Bars[0].Verdict != met || table.Bars[1].Verdict != notMet {
		t.Errorf("bars: got %+v, want one that is met and one that is not", table.Bars)
	}
	for _, test := range fleetSoaks() {
		if !strings.HasPrefix(test.name, "TestSoak") {
			t.Errorf("%s is no long test", test.name)
		}
	}
}

package limittest

import (
	"testing"
	"time"
)

// TestLedgerKnowsTheBound books what is just within and just beyond each bound.
func TestLedgerKnowsTheBound(t *testing.T) {
	second := time.Second
	perSecond := envelope{burst: 10, count: 10, period: second.Microseconds()}
	for _, test := range []struct {
		name  string
		units []int64
		at    []time.Duration
		check func(*ledger) error
		ok    bool
	}{
		{
			"burst and rate",
			[]int64{10, 5},
			[]time.Duration{0, second / 2},
			func(b *ledger) error { return b.withinEnvelope(perSecond, false) }, true,
		},
		{
			"a unit too many",
			[]int64{10, 6},
			[]time.Duration{0, second / 2},
			func(b *ledger) error { return b.withinEnvelope(perSecond, false) }, false,
		},
		{
			"a microsecond too soon",
			[]int64{10, 5},
			[]time.Duration{0, second/2 - time.Microsecond},
			func(b *ledger) error { return b.withinEnvelope(perSecond, false) }, false,
		},
		{
			"too many in the midst",
			[]int64{1, 10, 1, 1},
			[]time.Duration{0, 10 * second, 10 * second, 20 * second},
			func(b *ledger) error { return b.withinEnvelope(perSecond, false) }, false,
		},
		{
			"no time passes when the clock goes back",
			[]int64{10, 1},
			[]time.Duration{10 * second, 5 * second},
			func(b *ledger) error { return b.withinEnvelope(perSecond, false) }, false,
		},
		{
			"nor when it comes back",
			[]int64{10, 5, 1},
			[]time.Duration{0, second / 2, second/2 + 1},
			func(b *ledger) error { return b.withinEnvelope(perSecond, false) }, false,
		},
		{
			"ten in a period",
			[]int64{10, 10},
			[]time.Duration{0, second},
			func(b *ledger) error { return b.withinAnyInterval(second, 10) }, true,
		},
		{
			"ten in less",
			[]int64{10, 1},
			[]time.Duration{0, second - time.Microsecond},
			func(b *ledger) error { return b.withinAnyInterval(second, 10) }, false,
		},
		{
			"ten in a window",
			[]int64{10, 10},
			[]time.Duration{second - time.Microsecond, second},
			func(b *ledger) error { return b.withinEachWindow(second, 0, 10) }, true,
		},
		{
			"eleven in a window",
			[]int64{10, 1},
			[]time.Duration{0, second - time.Microsecond},
			func(b *ledger) error { return b.withinEachWindow(second, 0, 10) }, false,
		},
		{
			"eleven in a window that begins later",
			[]int64{10, 1},
			[]time.Duration{second - time.Microsecond, second},
			func(b *ledger) error { return b.withinEachWindow(second, second/2, 10) }, false,
		},
	} {
		var book ledger
		for i := range test.units {
			book.recordAdmission(test.at[i], test.units[i])
		}
		if err := test.check(&book); (err == nil) != test.ok {
			t.Errorf("%s: got %v", test.name, err)
		}
	}
}

// TestLedgerLoosely counts the time that was asked about, also where nothing was admitted.
func TestLedgerLoosely(t *testing.T) {
	var book ledger
	book.recordAdmission(0, 10)
	book.recordCall(time.Second)
	book.recordAdmission(0, 10)
	e := envelope{burst: 10, count: 10, period: time.Second.Microseconds()}
	if err := book.withinEnvelope(e, false); err == nil {
		t.Error("strictly: no complaint")
	}
	if err := book.withinEnvelope(e, true); err != nil {
		t.Errorf("loosely: %v", err)
	}
}

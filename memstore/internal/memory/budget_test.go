package memory

import "testing"

func TestBudgetLimitsTablesAndRecords(t *testing.T) {
	var b Budget
	b.SetLimit(800)
	for i, step := range []struct {
		tables bool
		bytes  int64
		want   bool
	}{
		{true, 701, false}, // above seven eighths
		{true, 700, true},
		{true, 1, false},
		{false, 101, false}, // above the limit together
		{false, 100, true},
		{false, 1, false},
	} {
		part := &b.Records
		if step.tables {
			part = &b.Tables
		}
		if got := b.Reserve(part, step.bytes); got != step.want {
			t.Errorf("step %d: Reserve(%d) returned %v, want %v", i, step.bytes, got, step.want)
		}
	}
	if b.Tables.Add(-700); !b.Reserve(&b.Tables, 700) || b.Used() != 800 {
		t.Errorf("got %d bytes used after a release, want to reserve them again", b.Used())
	}
}

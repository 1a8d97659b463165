package fleetredis

import (
	"testing"
	"time"

	"github.com/headgate/headgate/server/fleet"
)

// The units of the end of a window, which no report of that window has, count in the region's units of the window
// before. Those that were reported count once.
func TestRegionUnitsOfTheWindowBeforeCountOnce(t *testing.T) {
	t.Parallel()
	_, s := openStandalone(t)
	store, err := NewRegionStore(s, "")
	if err != nil {
		t.Fatal(err)
	}
	const period = 60
	for i, step := range []struct {
		node            string
		start, window   int64
		total, previous int64
		want            int64
	}{
		{"a", 1, 10 * period, 70, 0, 0},
		{"b", 1, 10 * period, 20, 0, 0},
		{"a", 2, 11 * period, 3, 75, 95}, // 5 more than it had reported
		{"a", 2, 11 * period, 4, 75, 95}, // again
		{"b", 2, 11 * period, 1, 20, 95}, // nothing more
		{"c", 1, 11 * period, 1, 6, 101}, // it had reported nothing
		{"d", 1, 11 * period, 1, 0, 101}, // it has consumed nothing
		{"a", 3, 13 * period, 1, 0, 0},   // no unit was consumed in window 12
		{"b", 3, 13 * period, 1, 30, 30}, // but by this node, which had reported window 11
		{"a", 4, 13 * period, 2, 8, 30},  // its record started again within the window
		{"b", 4, 14*period - 1, 1, 1, 4}, // the period has changed: of an earlier window that overlaps, all counts
	} {
		var got fleet.RegionRecord
		_, err := store.Report(t.Context(), step.node, time.Hour, []fleet.NodeRecord{{
			Key: keyOf("x"), Start: step.start, Window: step.window, Before: step.window - period, Total: step.total,
			Previous: step.previous, Keep: time.Hour,
		}}, func(_ int, r fleet.RegionRecord) { got = r })
		if err != nil {
			t.Fatal(err)
		}
		if got.Previous != step.want {
			t.Errorf("step %d: units of the window before: got %d, want %d", i, got.Previous, step.want)
		}
	}
}

// Nodes of an earlier version, which know nothing of windows before, may write the same hash.
func TestRegionRecordsOfAnEarlierVersionAreRead(t *testing.T) {
	t.Parallel()
	server, s := openStandalone(t)
	store, err := NewRegionStore(s, "")
	if err != nil {
		t.Fatal(err)
	}
	const period = 60
	report := func(start, window, total, previous int64) (got fleet.RegionRecord) {
		t.Helper()
		missed, err := store.Report(t.Context(), "a", time.Hour, []fleet.NodeRecord{{
			Key: keyOf("x"), Start: start, Window: window, Before: window - period, Total: total, Previous: previous,
			Keep: time.Hour,
		}}, func(_ int, r fleet.RegionRecord) { got = r })
		if err != nil || len(missed) > 0 {
			t.Fatalf("missed %v, %v", missed, err)
		}
		return got
	}
	settle := func(start, window, total, previous int64) (got fleet.Growth) {
		t.Helper()
		missed, err := store.Settle(t.Context(), []fleet.RemoteTotal{{
			Key: keyOf("x"), Region: "there", Start: start, Window: window, Before: window - period, Total: total,
			Previous: previous, SentAt: 1, MaxTotal: 1000, MaxGrowth: 1000, Keep: time.Hour,
		}}, func(_ int, g fleet.Growth) { got = g })
		if err != nil || len(missed) > 0 {
			t.Fatalf("missed %v, %v", missed, err)
		}
		return got
	}
	report(1, 10*period, 70, 0)
	keys, err := server.Do("KEYS", "*")
	if err != nil {
		t.Fatal(err)
	}
	key := keys.([]any)[0].(string)
	for _, args := range [][]string{{"HDEL", key, "p"}, {"HSET", key, "na", "1:70:1000", "bthere", "1:50:1:0"}} {
		if _, err := server.Do(args...); err != nil {
			t.Fatal(err)
		}
	}
	if got := report(2, 11*period, 1, 75); got.Total != 1 || got.Previous != 70 {
		t.Errorf("after a report of an earlier version: got %+v, want a total of 1, and 70 before", got)
	}
	if got := settle(1, 10*period, 60, 9); got != (fleet.Growth{Units: 10}) {
		t.Errorf("growth of a record that an earlier version settled: got %+v, want 10 units", got)
	}
	if got := settle(2, 11*period, 5, 62); got != (fleet.Growth{Units: 5, Previous: 2}) {
		t.Errorf("growth in the next window: got %+v, want 5 units, and 2 before", got)
	}
}

package exchange

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

func TestNotesOfBucketsCarryAComparison(t *testing.T) {
	bucket, window := headgate.PerSecond(10), headgate.MustParseLimit("10/s fixed-window")
	for name, c := range map[string]tally.Comparison{
		"nothing":       {},
		"no valid sum":  {Digest: 0xffff, DrainedPart: 63, Recent: true},
		"a sum":         {Sum: 1 << 40, Digest: 7, SumValid: true},
		"a sum of zero": {Digest: 7, SumValid: true, Recent: true},
	} {
		sent := tally.Tally{Start: time.Second, Total: 12, Level: 5, Comparison: c}
		var got tally.Tally
		if _, ok := ReadNote(string(AppendNote(nil, time.Hour, &sent)), &got); !ok {
			t.Fatalf("%s: the note is malformed", name)
		}
		ReadComparison(&got, &bucket)
		if got != sent {
			t.Errorf("%s: got %+v, want %+v", name, got, sent)
		}
	}
	for _, previous := range []int64{1, 10} {
		sent := tally.Tally{Limit: window, Start: time.Second, Total: 12, Window: 1767225600000000, Carried: 15, Previous: previous}
		got := tally.Tally{Limit: window}
		if _, ok := ReadNote(string(AppendNote(nil, time.Hour, &sent)), &got); !ok {
			t.Fatal("units of the previous window: the note is malformed")
		}
		if most := 521 * window.Capacity(); got.Level > most {
			t.Errorf("level: got %d, which version 0.1.0 refuses, want at most %d", got.Level, most)
		}
		if ReadPrevious(&got, &window); got != sent {
			t.Errorf("units of the previous window: got %+v, want %+v", got, sent)
		}
	}
	sent := tally.Tally{Start: time.Second, Total: 12, Level: 5, Window: 1767225600000000, Carried: 15}
	got := sent
	if ReadComparison(&got, &window); got != sent {
		t.Errorf("a note of a window: got %+v, want %+v", got, sent)
	}
}

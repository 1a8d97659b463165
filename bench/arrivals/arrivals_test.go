package arrivals

import (
	"sync/atomic"
	"testing"
	"time"
)

func TestCallsAreMadeWhetherOrNotThoseBeforeAreDone(t *testing.T) {
	const rate, lasting, held = 2000, 100 * time.Millisecond, 20
	var calls atomic.Int64
	release := make(chan struct{})
	took, err := Offer(rate, lasting, func() {
		switch n := calls.Add(1); {
		case n < held:
			<-release
		case n == held:
			close(release)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	// Chance makes about 200 of them, with a spread of 14.
	if got := calls.Load(); got < 100 || got > 300 || int64(len(took)) != got {
		t.Errorf("%d calls were made and %d timed, want about 200 of both", got, len(took))
	}
	for i := range took {
		if i > 0 && took[i] < took[i-1] {
			t.Fatalf("%v comes after %v, want them in order", took[i], took[i-1])
		}
	}
}

func TestNothingIsOfferedAtNoRate(t *testing.T) {
	for _, rate := range []float64{0, -1} {
		if _, err := Offer(rate, time.Second, func() {}); err == nil {
			t.Errorf("a rate of %g was offered", rate)
		}
	}
	if _, err := Offer(1, 0, func() {}); err == nil {
		t.Error("calls were offered for no time")
	}
}

func TestQuantileIsWhatAShareDoesNotExceed(t *testing.T) {
	var list []time.Duration
	for i := range 1000 {
		list = append(list, time.Duration(i+1))
	}
	for _, tt := range []struct {
		of    []time.Duration
		share float64
		want  time.Duration
	}{
		{list, 0.5, 501}, {list, 0.99, 991}, {list, 0.999, 1000}, {list, 1, 1000}, {list[:1], 0.99, 1}, {nil, 0.99, 0},
	} {
		if got := Quantile(tt.of, tt.share); got != tt.want {
			t.Errorf("%g of %d: got %d, want %d", tt.share, len(tt.of), got, tt.want)
		}
	}
}

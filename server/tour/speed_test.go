package tour

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
)

func TestMeasureCountsDecisions(t *testing.T) {
	const lasts = 20 * time.Millisecond
	start := time.Now()
	s, err := measure(t.Context(), 10_000, lasts)
	took := time.Since(start)
	if err != nil {
		t.Fatal(err)
	}
	if took < lasts {
		t.Errorf("got a result after %v, want it to measure for %v", took, lasts)
	}
	if s.cores != runtime.GOMAXPROCS(0) {
		t.Errorf("got %d cores, want %d", s.cores, runtime.GOMAXPROCS(0))
	}
	// A batch is 1000 decisions, and one takes longer than a nanosecond.
	if least, most := 1000/took.Seconds(), 1e9*float64(s.cores); s.perSecond < least || s.perSecond > most {
		t.Errorf("got %.0f decisions/s, want %.0f to %.0f", s.perSecond, least, most)
	}
	if s.bytesPerKey < 16 || s.bytesPerKey > 100 {
		t.Errorf("got %.1f bytes a key, want 16 to 100", s.bytesPerKey)
	}
}

func TestMeasureEndsWhenInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := measure(ctx, 10, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v while filling, want %v", err, context.Canceled)
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := measure(ctx, 10, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v while measuring, want %v", err, context.Canceled)
	}
}

func TestMillions(t *testing.T) {
	for n, want := range map[float64]string{0: "0.0 million", 1.26e6: "1.3 million", 12.6e6: "13 million"} {
		if got := millions(n); got != want {
			t.Errorf("%g: got %q, want %q", n, got, want)
		}
	}
}

package await

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A failure is a test that only tells what it failed of.
type failure struct {
	testing.TB
	text string
}

func (f *failure) Helper() {}

func (f *failure) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestWaitsUntilItIsSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		later := func() bool { return time.Since(start) >= time.Minute }
		True(t, "a minute has passed", later)
		if got := time.Since(start); got != time.Minute {
			t.Errorf("True: got back after %v, want a minute", got)
		}
		start = time.Now()
		took := NoError(t, "a minute has passed", func() error {
			if later() {
				return nil
			}
			return errors.New("too early")
		})
		if took != time.Minute {
			t.Errorf("NoError: took %v, want a minute", took)
		}
		start = time.Now()
		Equal(t, "a minute has passed", later, true)
	})
}

func TestGivesUpAndSaysWhatItSawLast(t *testing.T) {
	for name, tt := range map[string]struct {
		wait func(t testing.TB)
		says []string
	}{
		"True":    {func(t testing.TB) { True(t, "the moon is full", func() bool { return false }) }, []string{"the moon is full"}},
		"NoError": {func(t testing.TB) { NoError(t, "call", func() error { return errors.New("refused") }) }, []string{"call", "refused"}},
		"Equal":   {func(t testing.TB) { Equal(t, "keys", func() int { return 3 }, 4) }, []string{"keys", "got 3", "want 4"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, failed := time.Now(), &failure{TB: t}
				done := make(chan struct{})
				go func() {
					defer close(done)
					tt.wait(failed)
				}()
				<-done
				if got := time.Since(start); got < Timeout || got > Timeout+time.Second {
					t.Errorf("gave up after %v, want %v", got, Timeout)
				}
				for _, want := range tt.says {
					if !strings.Contains(failed.text, want) {
						t.Errorf("got %q, want it to say %q", failed.text, want)
					}
				}
			})
		})
	}
}

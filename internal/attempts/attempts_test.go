package attempts

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// A trial is a test that may fail without failing this one.
type trial struct {
	testing.TB
	failed bool
	logs   []string
}

func (*trial) Helper() {}

func (t *trial) Failed() bool { return t.failed }

func (t *trial) Errorf(string, ...any) { t.failed = true }

func (t *trial) Logf(format string, args ...any) {
	t.logs = append(t.logs, fmt.Sprintf(format, args...))
}

func (t *trial) Fatalf(format string, args ...any) {
	t.Logf(format, args...)
	t.failed = true
	runtime.Goexit()
}

func TestOneAttemptMustHold(t *testing.T) {
	for _, tt := range []struct {
		name   string
		holds  int // the attempt that does, 0 for none
		breaks int // the attempt in which the test itself fails, 0 for none
		tries  int
		failed bool
	}{
		{name: "the first", holds: 1, tries: 1},
		{name: "the last", holds: 3, tries: 3},
		{name: "none", tries: 3, failed: true},
		{name: "one too late", holds: 4, tries: 3, failed: true},
		{name: "an error of the test itself", holds: 3, breaks: 2, tries: 2, failed: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var inner trial
			tries := 0
			var done sync.WaitGroup
			done.Go(func() {
				OneOf(&inner, 3, func() error {
					tries++
					if tries == tt.breaks {
						inner.Errorf("broken")
					}
					if tries == tt.holds {
						return nil
					}
					return errors.New("too slow")
				})
			})
			done.Wait()
			if tries != tt.tries || inner.failed != tt.failed {
				t.Errorf("%d attempts, failed %v; want %d, %v", tries, inner.failed, tt.tries, tt.failed)
			}
			if said := strings.Count(strings.Join(inner.logs, "\n"), "too slow"); said == 0 && tt.tries > 1 {
				t.Errorf("the log is %q, want to read why attempts did not hold", inner.logs)
			}
		})
	}
}

package limittest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// A recorder stands in for the test of a check, and notes whether it fails.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) record(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, message)
}

func (r *recorder) Error(args ...any)                 { r.record(fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.record(fmt.Sprintf(format, args...)) }

func (r *recorder) Fatal(args ...any) {
	r.record(fmt.Sprint(args...))
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.record(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

// failuresOf runs the checks whose group/name begins with prefix, and returns what they complain about.
func failuresOf(t *testing.T, prefix string, newLimiter Maker, o Options) []string {
	t.Helper()
	all, err := allTests()
	if err != nil {
		t.Fatal(err)
	}
	var failures []string
	ran := false
	for _, c := range all {
		name := c.group + "/" + c.name
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		ran = true
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.run(newTrial(r, c, newLimiter, o.withDefaults()))
		}()
		<-done
		for _, f := range r.failures {
			failures = append(failures, name+": "+f)
		}
	}
	if !ran {
		t.Fatalf("no check begins with %q", prefix)
	}
	return failures
}

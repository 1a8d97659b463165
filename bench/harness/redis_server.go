package harness

import (
	"fmt"
	"os"
	"testing"

	"github.com/headgate/headgate/internal/redistest"
)

// StartRedis starts a new Redis server. stop ends it.
func StartRedis() (server *redistest.Server, stop func(), err error) {
	h := &host{}
	defer func() {
		if failure, ok := recover().(hostError); ok {
			h.end()
			err = failure
		}
	}()
	return redistest.Standalone(h, redistest.Options{}), h.end, nil
}

// A host replaces a test for functions that expect one.
type host struct {
	testing.TB
	ends []func()
}

type hostError string

func (f hostError) Error() string { return string(f) }

func (h *host) Helper() {}

func (h *host) Name() string { return "bench" }

func (h *host) Failed() bool { return false }

func (h *host) Cleanup(f func()) { h.ends = append(h.ends, f) }

func (h *host) Log(...any) {}

func (h *host) Logf(string, ...any) {}

func (h *host) Fatal(args ...any) { panic(hostError(fmt.Sprint(args...))) }

func (h *host) Fatalf(format string, args ...any) { panic(hostError(fmt.Sprintf(format, args...))) }

func (h *host) TempDir() string {
	dir, err := os.MkdirTemp("", "headgate-bench-")
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (h *host) end() {
	for i := len(h.ends) - 1; i >= 0; i-- {
		h.ends[i]()
	}
	h.ends = nil
}

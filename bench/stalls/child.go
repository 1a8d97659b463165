package stalls

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// The task of a child process, in its environment.
const (
	watchedCore  = "HEADGATE_WATCHED_CORE"   // watch that core
	arrivalsEach = "HEADGATE_ARRIVALS_EVERY" // interval between requests in nanoseconds
)

// Main must be called first by a program that uses this package, because the program is its own child: in a process
// that Begin or Arrive started it does the task and does not return; otherwise it does nothing.
func Main() {
	for name, do := range map[string]func(int) error{
		watchedCore:  func(core int) error { return watchCore(core, json.NewEncoder(os.Stdout)) },
		arrivalsEach: func(every int) error { return sendArrivals(time.Duration(every), os.Stdout) },
	} {
		value, err := strconv.Atoi(os.Getenv(name))
		if err != nil {
			continue
		}
		if err := do(value); err != nil {
			fmt.Fprintf(os.Stderr, "%s=%d: %v\n", name, value, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// A child is this program in another process. It ends when its input ends, at the latest with this process.
type child struct {
	cmd *exec.Cmd
	in  io.Closer
}

func startChild(name string, value int) (*child, io.ReadCloser, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(self)
	// It sleeps without its scheduler, which must not preempt it.
	cmd.Env = append(os.Environ(), name+"="+strconv.Itoa(value), "GODEBUG=asyncpreemptoff=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	return &child{cmd, in}, out, nil
}

// stop lets the child end.
func (c *child) stop() { _ = c.in.Close() }

// wait waits until it has ended. Its exit status does not matter.
func (c *child) wait() { _ = c.cmd.Wait() }

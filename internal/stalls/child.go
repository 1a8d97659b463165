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

// What a child process is to do, in its environment.
const (
	watchedCore  = "HEADGATE_WATCHED_CORE"   // watch that core
	arrivalsEach = "HEADGATE_ARRIVALS_EVERY" // send requests, as often: nanoseconds
)

// Main is to be called first of all by a program that uses this package, which is its own child: in a process that Begin or Arrive
// has started it does what that is for and does not return, in all others it does nothing.
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

// A child is this program in a process of its own. It ends with its input, at the latest when this process does.
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
	// It sleeps in a way that its scheduler does not hear of, which must not wake it to run others.
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

// tell tells it to end.
func (c *child) tell() { _ = c.in.Close() }

// wait waits until it has. However it ended, it has said all that it had to say, or not.
func (c *child) wait() { _ = c.cmd.Wait() }

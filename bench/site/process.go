package site

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A process is another program that runs on one core until it is stopped, or until this program ends.
type process struct {
	Cmd   *exec.Cmd
	Said  *speech
	Ended chan struct{}
	err   error // how it ended, once it has
}

// StartProcess starts a command on a core.
func StartProcess(core int, cmd *exec.Cmd) (*process, error) {
	taskset, err := Program("taskset")
	if err != nil {
		return nil, err
	}
	cmd.Args = append([]string{taskset, "-c", strconv.Itoa(core)}, cmd.Args...)
	cmd.Path = taskset
	cmd.SysProcAttr = endsWithUs()
	p := &process{Cmd: cmd, Said: &speech{}, Ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.Said, p.Said
	cmd.WaitDelay = 5 * time.Second // for somebody outside of its group who holds on to its output
	started := make(chan error)
	go func() {
		// Linux ends the command with the thread that started it, so that thread has to stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
		close(p.Ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Args[3], err)
	}
	return p, nil
}

// Stop ends the process and whatever it started, and waits until it is gone.
func (p *process) Stop() {
	select {
	case <-p.Ended:
	default:
		killGroup(p.Cmd.Process.Pid)
		<-p.Ended
	}
}

// Finish waits until the process ends by itself, as one that measures does.
func (p *process) Finish(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case <-p.Ended:
		if p.err != nil {
			return fmt.Errorf("%w: %s", p.err, p.Said)
		}
		return nil
	case <-ctx.Done():
		p.Stop()
		return fmt.Errorf("it did not end in time: %w: %s", ctx.Err(), p.Said)
	}
}

// startupTime is how long a program may take until it serves, on a machine that has other things to do.
const startupTime = 20 * time.Second

// Await polls until ready says so, the process ends or it takes too long.
func (p *process) Await(ctx context.Context, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startupTime)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.Ended:
			return fmt.Errorf("%w: %s", errEnded, p.Said)
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w: %s", err, p.Said)
		case <-tick.C:
		}
	}
}

// errEnded says that a server ended by itself: its port may have been taken.
var errEnded = errors.New("it ended by itself")

// Program finds a program, also where Debian keeps servers from those who are not root.
func Program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	if path, err := exec.LookPath("/usr/sbin/" + name); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("%s is not installed: make need-proxies installs what the gateway is measured with: %w", name,
		err)
}

// A speech is the end of what a program says.
type speech struct {
	mu   sync.Mutex
	text []byte
}

// speechKept is how many bytes of it are kept.
const speechKept = 16 << 10

func (s *speech) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, text...)
	if over := len(s.text) - speechKept; over > 0 {
		s.text = append(s.text[:0], s.text[over:]...)
	}
	return len(text), nil
}

func (s *speech) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(bytes.TrimSpace(s.text))
}

// has returns an error as long as nobody has said that.
func (s *speech) has(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !bytes.Contains(s.text, []byte(text)) {
		return fmt.Errorf("it has not said %q", text)
	}
	return nil
}

// Object reads the last line that is a JSON object and holds a text into a value, and returns an error if there is
// none.
func (s *speech) Object(holds string, into any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := bytes.Split(s.text, []byte("\n"))
	for _, line := range slices.Backward(lines[:len(lines)-1]) { // behind the last newline a line may not be whole
		if bytes.HasPrefix(line, []byte("{")) && bytes.Contains(line, []byte(holds)) {
			return json.Unmarshal(line, into)
		}
	}
	return fmt.Errorf("it has not said %s", holds)
}

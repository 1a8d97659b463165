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

// A process is another program that runs on one core until it is stopped or this program ends.
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
	cmd.WaitDelay = 5 * time.Second // a process outside of its group may keep its output open
	started := make(chan error)
	go func() {
		// Linux ends the command together with the thread that started it, so that thread must keep running.
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

// Stop stops the process and its children, and waits until they have ended.
func (p *process) Stop() {
	select {
	case <-p.Ended:
	default:
		killGroup(p.Cmd.Process.Pid)
		<-p.Ended
	}
}

// Finish waits until the process ends by itself, for programs that make a measurement.
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

// startupTime is the maximum time until a program serves. It is long, because the machine may be busy.
const startupTime = 20 * time.Second

// Await polls until ready returns no error, the process ends, or startupTime has passed.
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

// errEnded reports that a server has ended by itself. Another program may have taken its port.
var errEnded = errors.New("it ended by itself")

// Program returns the path of a program. It also searches the directories in which Debian has programs for root.
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

// A speech is the end of the output of a program.
type speech struct {
	mu   sync.Mutex
	text []byte
}

// speechKept is the maximum size of a speech in bytes.
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

// has returns an error until the output contains a text.
func (s *speech) has(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !bytes.Contains(s.text, []byte(text)) {
		return fmt.Errorf("it has not said %q", text)
	}
	return nil
}

// Object decodes the last line that is a JSON object and contains a text. It returns an error if there is none.
func (s *speech) Object(holds string, into any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return LoggedObject(s.text, holds, into)
}

// LoggedObject decodes the last line of a log that is a JSON object and contains a text. It returns an error if there is
// none.
func LoggedObject(log []byte, holds string, into any) error {
	lines := bytes.Split(log, []byte("\n"))
	for _, line := range slices.Backward(lines[:len(lines)-1]) { // behind the last newline a line may not be whole
		if bytes.HasPrefix(line, []byte("{")) && bytes.Contains(line, []byte(holds)) {
			return json.Unmarshal(line, into)
		}
	}
	return fmt.Errorf("it has not said %s", holds)
}

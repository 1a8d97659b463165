// Package process runs the servers that tests start: each in a process group of its own, which ends with the test's process
// if not before.
//
//	p, err := process.Start(exec.Command("redis-server", "redis.conf"))
//	if err != nil { ... }
//	err = p.Pause() // as SIGSTOP
//	err = p.Kill()  // as SIGKILL, also of one that is paused
package process

import (
	"os/exec"
	"runtime"
)

// A Process is a server's process and whatever that starts.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// Start starts a command. Whom it runs as is up to the command's SysProcAttr.
func Start(cmd *exec.Cmd) (*Process, error) {
	bind(cmd)
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux ends the command with the thread that started it, so that thread has to stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			close(p.ended) // before anybody hears of it, who may ask whether it runs
			started <- err
			return
		}
		started <- nil
		_ = cmd.Wait() // servers are killed; why they ended otherwise is in their log
		close(p.ended)
	}()
	return p, <-started
}

// Pid returns its number.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Running tells whether it has not ended. One that is paused has not.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Kill ends the process and returns when it is gone. Nothing happens if it has ended already.
func (p *Process) Kill() error {
	if !p.Running() {
		return nil
	}
	if err := kill(p.Pid()); err != nil {
		return err
	}
	<-p.ended
	return nil
}

// Pause stops the process where it is, and returns when it has stopped.
func (p *Process) Pause() error { return pause(p.Pid()) }

// Resume lets it go on.
func (p *Process) Resume() error { return resume(p.Pid()) }

// Package process runs servers for tests. Each server has its own process group. On Linux it is killed when the
// process of the test ends.
//
//	p, err := process.Start(exec.Command("redis-server", "redis.conf"))
//	if err != nil { ... }
//	err = p.Pause() // SIGSTOP
//	err = p.Kill()  // SIGKILL, even of a paused one
package process

import (
	"os/exec"
	"runtime"
)

// A Process is the process of a server and its children.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// Start starts a command. The command's SysProcAttr may set its user.
func Start(cmd *exec.Cmd) (*Process, error) {
	bind(cmd)
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux ends the command with the thread that started it, so that thread must stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			close(p.ended) // before Start returns, so that Running is correct
			started <- err
			return
		}
		started <- nil
		_ = cmd.Wait() // the error is expected, because tests kill servers; servers log other reasons
		close(p.ended)
	}()
	return p, <-started
}

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Running reports whether the process has not ended. A paused process is running.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Kill ends the process and waits for it. It does nothing if the process has ended already.
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

// Pause stops the process with SIGSTOP and waits until it has stopped.
func (p *Process) Pause() error { return pause(p.Pid()) }

// Resume continues a paused process.
func (p *Process) Resume() error { return resume(p.Pid()) }

// Package process runs servers for tests. Each server has its own process group. On Linux it is killed when the
// process of the test exits.
//
//	p, err := process.Start(exec.Command("redis-server", "redis.conf"))
//	if err != nil { ... }
//	err = p.Pause() // SIGSTOP
//	err = p.Kill()  // SIGKILL, which also works on a paused process
package process

import (
	"os/exec"
	"runtime"
)

// A Process is the process of a server and its children.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// Start starts a command. The command's SysProcAttr may set its user.
func Start(cmd *exec.Cmd) (*Process, error) {
	setProcAttr(cmd)
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux kills the command when the thread that started it exits, so that thread must not exit before the command.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			close(p.exited) // before Start returns, so that Running is correct
			started <- err
			return
		}
		started <- nil
		_ = cmd.Wait() // ignore the error: tests kill servers, and a server that exits by itself logs why
		close(p.exited)
	}()
	return p, <-started
}

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Running reports whether the process is alive. A paused process is.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Kill kills the process and waits until it has exited. It does nothing if the process has exited already.
func (p *Process) Kill() error {
	if !p.Running() {
		return nil
	}
	if err := kill(p.Pid()); err != nil {
		return err
	}
	<-p.exited
	return nil
}

// Pause stops the process with SIGSTOP and waits until it has stopped.
func (p *Process) Pause() error { return pause(p.Pid()) }

// Resume continues a paused process.
func (p *Process) Resume() error { return resume(p.Pid()) }

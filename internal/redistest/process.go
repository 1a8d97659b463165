package redistest

import (
	"os/exec"
	"runtime"
)

// A process is a server's process and whatever that starts.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// startProcess starts a command that ends with this process, if not before.
func startProcess(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = attributes()
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux ends the command with the thread that started it, so that thread has to stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // servers are killed; why they ended otherwise is in their log
		}
		close(p.ended)
	}()
	return p, <-started
}

// kill ends the process, also one that is paused, and waits until it is gone.
func (p *process) kill() error {
	if !p.running() {
		return nil
	}
	if err := signalKill(p.cmd.Process.Pid); err != nil {
		return err
	}
	<-p.ended
	return nil
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

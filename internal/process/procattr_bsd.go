//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// setProcAttr puts a command into its own process group.
func setProcAttr(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// stopped always returns nil, because this system does not say whether a process is stopped.
func stopped(int) error { return nil }

//go:build unix

package redistest

import (
	"errors"
	"syscall"
)

// The signals go to a whole process group: a server may be in the midst of saving, which it does in a child.

// signalKill also succeeds if there is nobody left.
func signalKill(pid int) error {
	if err := syscall.Kill(-pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

func signalResume(pid int) error { return syscall.Kill(-pid, syscall.SIGCONT) }

// signalPause returns when the process has stopped.
func signalPause(pid int) error {
	if err := syscall.Kill(-pid, syscall.SIGSTOP); err != nil {
		return err
	}
	return waitUntil("pause", func() error { return stopped(pid) })
}

//go:build unix

package process

import (
	"errors"
	"syscall"
	"time"
)

// The signals go to a whole process group: a server may be in the midst of saving, which it does in a child.

// kill also succeeds if there is nobody left.
func kill(pid int) error {
	if err := syscall.Kill(-pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

func resume(pid int) error { return syscall.Kill(-pid, syscall.SIGCONT) }

// stopping is how long a process may take to stop.
const stopping = 30 * time.Second

func pause(pid int) error {
	if err := syscall.Kill(-pid, syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(stopping); ; time.Sleep(time.Millisecond) {
		if err := stopped(pid); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

//go:build unix

package process

import (
	"errors"
	"syscall"
	"time"
)

// Signals go to the whole process group, because a server may have children, for example to save its data.

// kill also succeeds if no process is left.
func kill(pid int) error {
	if err := syscall.Kill(-pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

func resume(pid int) error { return syscall.Kill(-pid, syscall.SIGCONT) }

// stopTimeout bounds the time to stop a process.
const stopTimeout = 30 * time.Second

// pause stops the group. While the process does not stop, it resumes the group and tries again at growing intervals:
// after vfork, a process waits until its child executes a program. If the child is stopped before that, the process
// cannot stop.
func pause(pid int) error {
	end := time.Now().Add(stopTimeout)
	for wait := 10 * time.Millisecond; ; wait *= 2 {
		if err := syscall.Kill(-pid, syscall.SIGSTOP); err != nil {
			return err
		}
		for nextTry := time.Now().Add(wait); ; time.Sleep(time.Millisecond) {
			err := stopped(pid)
			if err == nil {
				return nil
			}
			if now := time.Now(); now.After(end) {
				return err
			} else if now.After(nextTry) {
				break
			}
		}
		if err := resume(pid); err != nil {
			return err
		}
		time.Sleep(wait)
	}
}

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

// pause stops the group, and again after ever longer, as long as the process does not stop: one that has just made a child as vfork
// does waits until the child runs a program of its own, and if the child is stopped before that, neither gets there.
func pause(pid int) error {
	end := time.Now().Add(stopping)
	for patience := 10 * time.Millisecond; ; patience *= 2 {
		if err := syscall.Kill(-pid, syscall.SIGSTOP); err != nil {
			return err
		}
		for look := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			err := stopped(pid)
			if err == nil {
				return nil
			}
			if now := time.Now(); now.After(end) {
				return err
			} else if now.After(look) {
				break
			}
		}
		if err := resume(pid); err != nil {
			return err
		}
		time.Sleep(patience)
	}
}

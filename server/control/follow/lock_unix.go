//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package follow

import (
	"errors"
	"os"
	"syscall"
)

// lock locks a file exclusively until it is closed. It returns an error immediately if another process holds the lock.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// syncDir makes renames in a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

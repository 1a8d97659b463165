//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package follow

import (
	"errors"
	"os"
	"syscall"
)

// lock holds a file for this process, for as long as it is open.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // it was only to be held
		return nil, err
	}
	return f, nil
}

// syncDir makes a rename last.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

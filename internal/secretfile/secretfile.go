// Package secretfile reads files with secrets: tokens, keys and private keys of certificates.
package secretfile

import (
	"fmt"
	"io"
	"os"
	"runtime"
)

// maxBytes is the maximum size of a file.
const maxBytes = 1 << 20

// Read returns the content of a file. It refuses a world-writable file, because any user could replace the secret.
// Pipes and devices are not checked.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := check(path, info.Mode()); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && len(data) > maxBytes {
		err = fmt.Errorf("%s is longer than %d bytes: want a file with one secret", path, maxBytes)
	}
	return data, err
}

// Check returns an error if the file is world-writable.
func Check(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return check(path, info.Mode())
}

func check(path string, mode os.FileMode) error {
	if mode.IsRegular() && mode.Perm()&0o002 != 0 && runtime.GOOS != "windows" { // Windows has no such bit
		return fmt.Errorf("%s can be written by everybody (%v): want 0600, as of: chmod 600 %s", path, mode.Perm(), path)
	}
	return nil
}

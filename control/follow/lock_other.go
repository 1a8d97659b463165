//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package follow

import "os"

// lock opens a file. Nobody is kept from it here: give each node a directory of its own.
func lock(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) }

// syncDir is for systems on which a directory can be written out.
func syncDir(string) error { return nil }

//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package follow

import "os"

// lock does nothing, because this system has no flock. Operators must give each node its own directory.
func lock(*os.File) error { return nil }

// syncDir does nothing, because this system cannot sync directories.
func syncDir(string) error { return nil }

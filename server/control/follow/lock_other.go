//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package follow

import "os"

// lock does nothing on this system. Give each node its own directory.
func lock(*os.File) error { return nil }

// syncDir does nothing on this system.
func syncDir(string) error { return nil }

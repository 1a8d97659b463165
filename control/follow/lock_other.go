//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package follow

import "os"

// lock does nothing: nobody is kept from a file here. Give each node a directory of its own.
func lock(*os.File) error { return nil }

// syncDir is for systems on which a directory can be written out.
func syncDir(string) error { return nil }

//go:build unix

package conns

import "syscall"

// DescriptorLimit returns how many files and connections the process may have open, or 0 if this is unknown. At the
// start of the process, the Go runtime has raised the soft limit to the hard limit if the system allows it.
func DescriptorLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	const maxLimit = 1 << 30 // more than any process needs, and fits into an int
	return int(min(limit.Cur, maxLimit))
}

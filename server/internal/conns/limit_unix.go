//go:build unix

package conns

import "syscall"

// DescriptorLimit returns how many files and connections the process may have open, 0 if that is not known. The Go
// runtime has raised the soft limit to the hard one at the start, where the system allows it.
func DescriptorLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	const most = 1 << 30 // no process needs more
	return int(min(limit.Cur, most))
}

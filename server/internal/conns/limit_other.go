//go:build !unix

package conns

// DescriptorLimit returns how many files and connections the process may have open, or 0 if this is unknown.
func DescriptorLimit() int { return 0 }

//go:build !unix

package conns

// DescriptorLimit returns how many files and connections the process may have open, 0 if that is not known.
func DescriptorLimit() int { return 0 }

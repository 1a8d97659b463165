package memory

import (
	"syscall"
	"unsafe"
)

// madviseHugepage is Linux's MADV_HUGEPAGE, which package syscall does not name on every architecture.
const madviseHugepage = 14

// PreferLargePages asks the system to back the memory with large pages: a table of many gigabytes is read at random,
// and looking up the page of a slot can take as long as reading it. It is no error if the system cannot do that.
func PreferLargePages(memory []byte) { _ = syscall.Madvise(memory, madviseHugepage) }

// ReturnPages returns unused memory to the system, and reports whether the system accepted it. Afterwards the memory
// reads as zero, also for goroutines that still read it.
func ReturnPages(memory []byte) bool {
	// The system rounds to whole pages. If a page is larger than the memory, its neighbors would be lost too.
	page := uintptr(syscall.Getpagesize())
	if uintptr(len(memory))%page != 0 || uintptr(unsafe.Pointer(unsafe.SliceData(memory)))%page != 0 {
		return false
	}
	return syscall.Madvise(memory, syscall.MADV_DONTNEED) == nil
}

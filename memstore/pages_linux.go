package memstore

import (
	"syscall"
	"unsafe"
)

// madviseHugepage is Linux's MADV_HUGEPAGE, which package syscall does not name on every architecture.
const madviseHugepage = 14

// preferLargePages asks the system to back the memory with large pages: a table of many gigabytes is read at random,
// and looking up the page of a slot can take as long as reading it. It is no error if the system cannot do that.
func preferLargePages(slots []slot) { _ = syscall.Madvise(bytesOf(slots), madviseHugepage) }

// returnPages returns the memory of unused slots to the system, and reports whether the system accepted it. Afterwards
// the slots read as free, also for goroutines that still search them for a key.
func returnPages(slots []slot) bool {
	memory := bytesOf(slots)
	// The system rounds to whole pages. If a page is larger than a segment, neighboring segments would be lost too.
	page := uintptr(syscall.Getpagesize())
	if uintptr(len(memory))%page != 0 || uintptr(unsafe.Pointer(unsafe.SliceData(memory)))%page != 0 {
		return false
	}
	return syscall.Madvise(memory, syscall.MADV_DONTNEED) == nil
}

func bytesOf(slots []slot) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(slots))), len(slots)*slotBytes)
}

package memstore

import (
	"syscall"
	"unsafe"
)

// madviseHugepage is Linux's MADV_HUGEPAGE, which package syscall does not name on every architecture.
const madviseHugepage = 14

// preferLargePages asks the system to back the memory with large pages: a table of many gigabytes is read at random,
// and looking up the page of a slot can take as long as reading it. That the system may not is no error.
func preferLargePages(slots []slot) { _ = syscall.Madvise(bytesOf(slots), madviseHugepage) }

// forget lets the system have the memory of slots that nobody uses, and reports whether it took it. They read as free
// ones from then on, also to a decision that is still looking for its key there.
func forget(slots []slot) bool {
	memory := bytesOf(slots)
	// The system rounds to whole pages, which may be larger than a segment: then its neighbours would go too.
	page := uintptr(syscall.Getpagesize())
	if uintptr(len(memory))%page != 0 || uintptr(unsafe.Pointer(unsafe.SliceData(memory)))%page != 0 {
		return false
	}
	return syscall.Madvise(memory, syscall.MADV_DONTNEED) == nil
}

func bytesOf(slots []slot) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(slots))), len(slots)*slotBytes)
}

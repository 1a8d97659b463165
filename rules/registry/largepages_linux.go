package registry

import (
	"os"
	"syscall"
	"unsafe"
)

// madviseHugepage is Linux's MADV_HUGEPAGE, which package syscall does not name on every architecture.
const madviseHugepage = 14

// largeTable is the size in bytes from which a table gains from large pages.
const largeTable = 4 << 20

// preferLargePages asks the system to back new memory with large pages. A table is read at random addresses, and a
// TLB miss can cost more than the read itself. Errors are ignored, because the table also works with small pages.
func preferLargePages[T any](table []T) {
	size := len(table) * int(unsafe.Sizeof(*new(T)))
	if size < largeTable {
		return
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(table))), size)
	page := os.Getpagesize()
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(bytes))) % uintptr(page))
	_ = syscall.Madvise(bytes[skip:size-(size-skip)%page], madviseHugepage)
}

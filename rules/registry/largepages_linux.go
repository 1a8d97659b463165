package registry

import (
	"os"
	"syscall"
	"unsafe"
)

// madviseHugepage is Linux's MADV_HUGEPAGE, which package syscall does not name on every architecture.
const madviseHugepage = 14

// largeTable is the smallest size in bytes for which large pages make a table faster.
const largeTable = 4 << 20

// preferLargePages asks the system to use large pages for a new table. A table is read at random addresses, and with
// small pages a TLB miss can take longer than the read itself. Errors are ignored, because small pages work as well.
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

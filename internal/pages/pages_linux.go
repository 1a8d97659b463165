// Package pages tells the operating system how to provide memory.
package pages

import (
	"syscall"
	"unsafe"
)

// madviseHugepage is Linux's MADV_HUGEPAGE, which package syscall does not name on every architecture.
const madviseHugepage = 14

// PreferLarge asks the system to back the memory with large pages. A large table is read at random addresses, and
// looking up a small page can take longer than the read itself. Errors are ignored, because small pages work as well.
func PreferLarge[T any](memory []T) {
	b := bytesOf(memory)
	page := syscall.Getpagesize()
	skip := int(-start(b) % uintptr(page)) // the system wants whole pages
	if size := (len(b) - skip) / page * page; size > 0 {
		_ = syscall.Madvise(b[skip:skip+size], madviseHugepage)
	}
}

// Return returns unused memory to the system, and reports whether the system accepted it. Afterwards the memory reads
// as zero, also for goroutines that still read it. T must not have pointers.
func Return[T any](memory []T) bool {
	b := bytesOf(memory)
	// The system rounds to whole pages. If a page is larger than the memory, its neighbors would be lost too.
	page := uintptr(syscall.Getpagesize())
	if uintptr(len(b))%page != 0 || start(b)%page != 0 {
		return false
	}
	return syscall.Madvise(b, syscall.MADV_DONTNEED) == nil
}

func bytesOf[T any](memory []T) []byte {
	size := len(memory) * int(unsafe.Sizeof(*new(T)))
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(memory))), size)
}

func start(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

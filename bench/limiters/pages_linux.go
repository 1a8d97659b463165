package limiters

import (
	"syscall"
	"unsafe"
)

func preferLargePages(words []uint64) {
	const madviseHugepage = 14
	_ = syscall.Madvise(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8), madviseHugepage)
}

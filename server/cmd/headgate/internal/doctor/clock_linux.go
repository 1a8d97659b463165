package doctor

import "syscall"

// unsynchronized is STA_UNSYNC of adjtimex(2).
const unsynchronized = 0x40

// clockSynchronized asks the kernel whether the clock is synchronized.
func clockSynchronized() (synchronized, known bool) {
	var t syscall.Timex
	if _, err := syscall.Adjtimex(&t); err != nil {
		return false, false
	}
	return t.Status&unsynchronized == 0, true
}

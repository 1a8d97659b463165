package site

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// InRealTime gives all threads of a process real-time priority.
func InRealTime(pid, priority int) error {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			return fmt.Errorf("read %s: %w", dir, err)
		}
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: uint32(priority)}
		if err := unix.SchedSetAttr(id, &attr, 0); err != nil {
			return fmt.Errorf("real time for %d: %w", id, err)
		}
	}
	return nil
}

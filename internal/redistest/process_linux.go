package redistest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// stopped returns an error while the process still runs.
func stopped(pid int) error {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return err
	}
	// PID (NAME) STATE …, and the name may hold anything.
	_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	if len(state) > 0 && (state[0] == 'T' || state[0] == 't') {
		return nil
	}
	return fmt.Errorf("process %d is not stopped", pid)
}

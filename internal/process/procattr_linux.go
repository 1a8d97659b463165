package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// setProcAttr puts a command into its own process group. Linux kills the command when the thread that starts it exits.
func setProcAttr(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
}

// stopped returns nil if the process is stopped, and an error if it runs.
func stopped(pid int) error {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return err
	}
	// PID (NAME) STATE …; the name may contain any character.
	_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	if len(state) > 0 && (state[0] == 'T' || state[0] == 't') {
		return nil
	}
	return fmt.Errorf("process %d is not stopped", pid)
}

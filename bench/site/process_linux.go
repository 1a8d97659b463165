package site

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// endsWithUs lets a command end when this program ends. It gets a signal that it can handle, so that it can stop its
// workers.
func endsWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// killGroup kills a process and its children. It is no error if they have ended already.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// groupTime returns the CPU time of the running processes of a group.
func groupTime(pid int) (time.Duration, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	var all time.Duration
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		group, used, err := parseStat(string(text))
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", file, err)
		}
		if group == pid {
			all += used
		}
	}
	return all, nil
}

// parseStat returns the group of a process and its CPU time, which the system counts in hundredths of a second.
func parseStat(stat string) (group int, used time.Duration, err error) {
	// The format is PID (NAME) STATE PARENT GROUP …, and the name may contain any characters. So the first word after the
	// name is the third of the line.
	const groupAt, userAt, systemAt = 5 - 3, 14 - 3, 15 - 3
	words := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(words) <= systemAt {
		return 0, 0, fmt.Errorf("%d words behind the name, want more", len(words))
	}
	var numbers [3]int
	for i, at := range []int{groupAt, userAt, systemAt} {
		if numbers[i], err = strconv.Atoi(words[at]); err != nil {
			return 0, 0, err
		}
	}
	return numbers[0], time.Duration(numbers[1]+numbers[2]) * (time.Second / 100), nil
}

// interrupt asks a process to end.
func interrupt(p *os.Process) error { return p.Signal(os.Interrupt) }

// OwnCores returns the numbers of the cores that this process may use.
func OwnCores() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read own cores: %w", err)
	}
	var cores []int
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			cores = append(cores, i)
		}
	}
	return cores, nil
}

package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// mountDisk mounts a small file system on a directory, and reports whether it could: that needs root.
func mountDisk(t *testing.T, dir string) bool {
	t.Helper()
	if err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", dir).Run(); err != nil {
		return false
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "--lazy", dir).CombinedOutput(); err != nil {
			t.Errorf("umount %s: %v: %s", dir, err, out)
		}
	})
	return true
}

// fillDisk fills the file system of a node until nothing can be written to it.
func (s *system) fillDisk(p *program) {
	f, err := os.Create(filepath.Join(p.disk, "fill"))
	if err != nil {
		s.t.Error(err)
		return
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		s.t.Errorf("fill the disk of %s: %v", p.name, err)
	}
	if err := f.Close(); err != nil && !errors.Is(err, syscall.ENOSPC) {
		s.t.Error(err)
	}
}

func (s *system) emptyDisk(p *program) {
	if err := os.Remove(filepath.Join(p.disk, "fill")); err != nil {
		s.t.Error(err)
	}
}

// pid returns the number of the process.
func (p *program) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// limit sets a soft limit of a running process, as prlimit(1) names it.
func (s *system) limit(p *program, name, value string) {
	c := exec.CommandContext(s.t.Context(), "prlimit", "--pid", strconv.Itoa(p.pid()), "--"+name+"="+value+":")
	if out, err := c.CombinedOutput(); err != nil && !p.down() {
		s.t.Errorf("%s: prlimit --%s=%s: %v: %s", p.name, name, value, err, out)
	}
}

// takeDescriptors leaves a node no descriptor for a new connection or file.
func (s *system) takeDescriptors(p *program) {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid()))
	if err != nil {
		s.t.Error(err)
		return
	}
	s.limit(p, "nofile", strconv.Itoa(len(open)))
}

// giveDescriptors ends takeDescriptors.
func (s *system) giveDescriptors(p *program) {
	c := exec.CommandContext(s.t.Context(), "prlimit", "--pid", strconv.Itoa(p.pid()), "--nofile", "--output=HARD", "--noheadings")
	most, err := c.Output()
	if err != nil {
		s.t.Errorf("%s: prlimit: %v", p.name, err)
		return
	}
	s.limit(p, "nofile", strings.TrimSpace(string(most)))
}

// takeMemory leaves a node a megabyte more than it has. If it needs more it ends, and is started again.
func (s *system) takeMemory(p *program) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.pid()))
	if err != nil {
		s.t.Error(err)
		return
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.limit(p, "as", strconv.FormatInt(pages*int64(os.Getpagesize())+1<<20, 10))
}

// giveMemory ends takeMemory.
func (s *system) giveMemory(p *program) {
	s.limit(p, "as", "unlimited")
	if p.down() {
		s.t.Logf("%s ended without memory", p.name)
		p.start()
	}
}

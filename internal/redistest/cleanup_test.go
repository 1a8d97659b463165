//go:build unix

package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestTheEndOfATestEndsItsServersAndRemovesTheirFiles(t *testing.T) {
	t.Parallel()
	var servers []*Server
	t.Run("test", func(t *testing.T) {
		for range 3 {
			servers = append(servers, Standalone(t, Options{}))
		}
		servers[1].Pause()
		servers[2].Kill()
	})
	for i, s := range servers {
		if s.Running() {
			t.Errorf("server %d runs", i)
		}
		if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("server %d: %s: got %v, want no such directory", i, s.dir, err)
		}
		if err := syscall.Kill(s.process.Pid(), 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("server %d: its process: got %v, want none", i, err)
		}
	}
}

// orphanVariable, if set, makes TestServersDieWithTheirTestProcess the process that dies.
const orphanVariable = "REDISTEST_ORPHAN"

func TestServersDieWithTheirTestProcess(t *testing.T) {
	if os.Getenv(orphanVariable) != "" {
		s := Standalone(t, Options{})
		fmt.Printf("server %d %s\n", s.process.Pid(), s.dir)
		select {}
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can promise that")
	}
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), orphanVariable+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir string
	if _, err := fmt.Sscanf(line, "server %d %s", &pid, &dir); err != nil {
		t.Fatalf("got %q: %v", line, err)
	}
	t.Cleanup(func() { // which nobody else does then
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	err = waitUntil("end", func() error {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) && !zombie(pid) {
			return fmt.Errorf("process %d is still there", pid)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// zombie reports whether a process has ended and was not waited for.
func zombie(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Contains(string(stat), ") Z ")
}

// A failedTest is a test that has failed, whatever else it thinks.
type failedTest struct {
	testing.TB
	log []string
}

func (f *failedTest) Failed() bool { return true }

func (f *failedTest) Logf(format string, args ...any) {
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

func TestAFailedTestShowsTheLog(t *testing.T) {
	t.Parallel()
	var f *failedTest
	t.Run("test", func(t *testing.T) {
		f = &failedTest{TB: t}
		Standalone(f, Options{})
	})
	if !slices.ContainsFunc(f.log, func(s string) bool { return strings.Contains(s, "Ready to accept connections") }) {
		t.Errorf("got %q, want the log of the server", f.log)
	}
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	s := newServer(t, "redis", Options{Config: []string{"no-such-directive 1"}}, nil)
	if err := s.start(); err == nil || !strings.Contains(err.Error(), "no-such-directive") {
		t.Errorf("got %v, want an error about no-such-directive", err)
	}
}

func TestATakenPortIsKnownFromOtherFailures(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer closeQuietly(l)
	s := newServer(t, "redis", Options{}, nil)
	s.port = l.Addr().(*net.TCPAddr).Port
	if err := os.WriteFile(s.file("redis.conf"), s.config(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.launch(); !errors.Is(err, errPortTaken) {
		t.Errorf("got %v, want %v", err, errPortTaken)
	}
}

func TestWithoutAServerTheErrorNamesThePackage(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := findServer(); err == nil || !strings.Contains(err.Error(), "install the package redis-server") {
		t.Errorf("got %v, want which package to install", err)
	}
}

func TestValkeyWillDo(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	want := dir + "/valkey-server"
	if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := findServer(); got != want {
		t.Errorf("got %q, %v; want %s", got, err, want)
	}
}

func TestADeadServerAnswersNobodyAtOnce(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{})
	s.Kill()
	start := time.Now()
	if reply, err := s.Do("PING"); err == nil {
		t.Errorf("got %v, want an error", reply)
	}
	if took := time.Since(start); took > doTimeout/2 {
		t.Errorf("it took %v to notice", took)
	}
}

package site

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func anyCore(t *testing.T) int {
	t.Helper()
	cores, err := OwnCores()
	if err != nil {
		t.Fatal(err)
	}
	return cores[len(cores)-1]
}

func TestStopEndsAProcessAndWhatItStarted(t *testing.T) {
	p, err := StartProcess(anyCore(t), exec.Command("sh", "-c", "sleep 1000 & echo started; wait"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Await(t.Context(), func() error { return p.Said.has("started\n") }); err != nil {
		t.Fatal(err)
	}
	p.Stop()
	p.Stop() // once more is nothing
	// What it started is reaped by somebody else, soon.
	for deadline := time.Now().Add(time.Minute); ; {
		err := syscall.Kill(-p.Cmd.Process.Pid, 0)
		if errors.Is(err, syscall.ESRCH) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("its group is still there: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestAProcessRunsOnItsCore(t *testing.T) {
	core := anyCore(t)
	p, err := StartProcess(core, exec.Command("sh", "-c", "nproc; taskset -cp $$"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Finish(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := p.Said.has("1\n"); err != nil {
		t.Errorf("it may use several cores, want one: %s", p.Said)
	}
}

func TestAProcessThatEndsTooSoonSaysWhy(t *testing.T) {
	p, err := StartProcess(anyCore(t), exec.Command("sh", "-c", "echo 'no such directive' >&2; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	err = p.Await(t.Context(), func() error { return errors.New("not yet") })
	if !errors.Is(err, errEnded) || !strings.Contains(err.Error(), "no such directive") {
		t.Errorf("await = %v; want that it ended, and what it said", err)
	}
	if err := p.Finish(t.Context(), time.Minute); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("finish = %v; want exit status 3", err)
	}
}

func TestAProcessThatDoesNotEndIsEnded(t *testing.T) {
	p, err := StartProcess(anyCore(t), exec.Command("sleep", "1000"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Finish(t.Context(), 10*time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not end in time") {
		t.Errorf("finish = %v; want that it did not end", err)
	}
	<-p.Ended
}

func TestAProgramThatIsMissingIsNamedWithTheWayToGetIt(t *testing.T) {
	if _, err := Program("no-such-proxy"); err == nil || !strings.Contains(err.Error(), "no-such-proxy is not installed: make need-proxies") {
		t.Errorf("program = %v; want the name and make need-proxies", err)
	}
}

func TestSpeechKeepsTheEndAndFindsTheLastObject(t *testing.T) {
	s := &speech{}
	say := func(text string) {
		if _, err := s.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	var got struct{ N int }
	if err := s.Object("N", &got); err == nil {
		t.Error("an object is found where there is nothing")
	}
	say(strings.Repeat("x", speechKept) + "\n{\"N\":1}\nN words\n{\"N\":2}\n{\"M\":9}\n{\"N\":")
	if err := s.Object(`"N"`, &got); err != nil || got.N != 2 {
		t.Errorf("got %+v, %v; want the last whole object, 2", got, err)
	}
	say("3}\n")
	if err := s.Object(`"N"`, &got); err != nil || got.N != 3 {
		t.Errorf("got %+v, %v; want 3", got, err)
	}
	if n := len(s.text); n != speechKept {
		t.Errorf("%d bytes are kept, want %d", n, speechKept)
	}
}

func TestProcessorTimeOfAGroupIsThatOfAllItsProcesses(t *testing.T) {
	group, used, err := parseStat("77 (a b) c) S 1 42 42 0 -1 4194304 1 2 3 4 150 50 9 9 20 0 1 0 100 1 1")
	if err != nil || group != 42 || used != 2*time.Second {
		t.Errorf("got group %d, %v, %v; want 42 and 2s", group, used, err)
	}
	// One that works, started by one that waits for it.
	p, err := StartProcess(anyCore(t), exec.Command("sh", "-c", "sh -c 'while :; do :; done' & wait"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	err = p.Await(t.Context(), func() error {
		used, err := groupTime(p.Cmd.Process.Pid)
		if err == nil && used < 50*time.Millisecond {
			err = fmt.Errorf("it has used %v, want 50ms", used)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

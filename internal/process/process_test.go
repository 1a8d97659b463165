//go:build unix

package process

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestAProcessIsPausedAndKilledWithItsChildren(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	cmd := exec.Command("sh", "-c", "sleep 600; true") // the shell waits for a child, which would outlive it
	cmd.Stdout = w
	p, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Close() // the shell and its child have it open
	if !p.Running() || p.Pid() == 0 {
		t.Errorf("got running %v, number %d", p.Running(), p.Pid())
	}
	for _, do := range []func() error{p.Pause, p.Resume, p.Pause} {
		if err := do(); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := p.Kill(); err != nil || p.Running() {
			t.Errorf("killed: got %v, running %v", err, p.Running())
		}
	}
	if err := r.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("got %d bytes, %v; want the end, since nobody is left who could write", n, err)
	}
}

func TestAProcessThatIsMakingChildrenIsPaused(t *testing.T) {
	t.Parallel()
	p, err := Start(exec.Command("sh", "-c", "while :; do sleep 0; done")) // one after the other
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := errors.Join(p.Pause(), p.Resume()); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
}

func TestACommandThatCannotBeStartedIsAnError(t *testing.T) {
	t.Parallel()
	if p, err := Start(exec.Command("/nowhere/no-such-program")); err == nil || p.Running() {
		t.Errorf("got %v, %v", p, err)
	}
}

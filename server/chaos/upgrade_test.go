package chaos

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// checkout writes the files of a commit to a directory.
func checkout(t *testing.T, commit string) string {
	t.Helper()
	dir := t.TempDir()
	c := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", `git archive "$0" | tar -x -C "$1"`, commit, dir)
	c.Dir = filepath.Join("..", "..")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git archive %s: %v\n%s", commit, err, out)
	}
	return dir
}

// replace replaces a process by another version: it drains, ends with 0, and the new one starts on the same addresses.
func (s *system) replace(p *program, binary string) {
	s.t.Helper()
	p.broken.Add(1) // the balancer sends no new requests; those in flight must finish
	if err := p.signal(syscall.SIGTERM); err != nil {
		s.t.Error(err)
	}
	<-p.ended
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		s.t.Errorf("%s: exit code %d, want 0", p.name, code)
	}
	p.binary = binary
	p.start()
	if p != s.rules {
		p.awaitListening()
	}
	p.broken.Add(-1)
	s.await(p.name+" in the other version", s.healthy)
}

// TestUpgrade changes a fleet from the commit HEADGATE_UPGRADE_FROM to this version and back, one process after the other
// and under load, as make upgrade-test does. Old and new nodes share limits meanwhile. No client sees an error, and no
// rule is lost.
func TestUpgrade(t *testing.T) {
	from := os.Getenv("HEADGATE_UPGRADE_FROM")
	if from == "" {
		t.Skip("set HEADGATE_UPGRADE_FROM to a commit, as make upgrade-test does")
	}
	older, newer := buildProgram(t, checkout(t, from)), buildProgram(t, "../..")
	s := startSystem(t, older)
	l, e := newLoad(s), &editor{s: s}
	l.strict = true
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { l.run(ctx) })
	group.Go(func() { e.run(ctx) })
	for _, binary := range []string{newer, older} {
		for _, p := range append([]*program{s.rules}, s.nodes...) {
			s.replace(p, binary)
			t.Logf("%6.1fs %s replaced", time.Since(l.begin).Seconds(), p.name)
		}
	}
	cancel()
	group.Wait()
	checkLoad(t, l, 0)
	s.checkRules(e.acked)
}

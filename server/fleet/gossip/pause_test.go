//go:build unix

package gossip

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/fleet"
)

// gossipChild is set, to the address to join, in a process that is a host of its own.
const gossipChild = "HEADGATE_TEST_GOSSIP_CHILD"

// TestGossipChild is such a process: it does what it is told line by line.
func TestGossipChild(t *testing.T) {
	addr := os.Getenv(gossipChild)
	if addr == "" {
		t.Skip("it is run by another test")
	}
	h := startReal(t, "child", func(_ *fleet.LedgerOptions, o *Options) { o.Join = []string{addr} })
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch word, key, _ := strings.Cut(in.Text(), " "); word {
		case "take":
			fmt.Println("child:", h.take(t, key, slow, 1))
		case "left":
			fmt.Println("child:", h.remaining(t, key, slow))
		case "live":
			fmt.Println("child:", h.Live())
		}
	}
}

type childHost struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

func startChild(t *testing.T, join string) *childHost {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestGossipChild$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), gossipChild+"="+join)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &childHost{t: t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(func() {
		c.signal(syscall.SIGCONT)
		_ = in.Close() // it ends then
		for c.out.Scan() {
		}
		_ = cmd.Wait()
	})
	return c
}

func (c *childHost) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Error(err)
	}
}

// ask returns the child's answer to a line.
func (c *childHost) ask(line string) (n int64) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		c.t.Fatal(err)
	}
	for c.out.Scan() {
		if text, ok := strings.CutPrefix(c.out.Text(), "child: "); ok {
			if _, err := fmt.Sscan(text, &n); err != nil {
				c.t.Fatal(err)
			}
			return n
		}
	}
	c.t.Fatalf("the child did not answer to %q: %v", line, c.out.Err())
	return 0
}

func TestGossipHostThatStoodStillIsBackAndKnowsAll(t *testing.T) {
	t.Parallel()
	a := startReal(t, "a", nil)
	child := startChild(t, a.Addr())
	await.True(t, "the two know each other", func() bool { return a.Live() == 2 && child.ask("live") == 2 })
	child.ask("take k")
	await.True(t, "a knows of the child's 1", func() bool { return a.remaining(t, "k", slow) == 999 })

	child.signal(syscall.SIGSTOP)
	await.True(t, "the child is missed", func() bool { return a.Live() == 1 && a.Known() == 2 })
	a.take(t, "k", slow, 10)
	a.take(t, "other", slow, 5)
	child.signal(syscall.SIGCONT)

	await.True(t, "the child is back", func() bool { return a.Live() == 2 && child.ask("live") == 2 })
	child.ask("take k")
	await.True(t, "both know all", func() bool {
		return a.remaining(t, "k", slow) == 988 && child.ask("left k") == 988 && child.ask("left other") == 995
	})
}

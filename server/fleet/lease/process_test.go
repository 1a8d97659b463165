//go:build unix

package lease_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/lease"
)

// leaseNodeVariable, if set, makes TestLeaseNode a node that goes by it until its standard input ends.
const leaseNodeVariable = "FLEET_TEST_LEASE_NODE"

// A leaseNode is what a node process is told.
type leaseNode struct {
	URL, Limit, Records string
	Nodes, Keys         int
	Offered             float64 // a second, all keys together
	Seed                uint64
}

// leaseSecret is what all nodes of a test hash their keys with.
var leaseSecret = []byte("a secret that only tests know, 32")

// TestLeaseNode is a process of the tests below, not a test.
func TestLeaseNode(t *testing.T) {
	told := os.Getenv(leaseNodeVariable)
	if told == "" {
		return
	}
	var n leaseNode
	if err := json.Unmarshal([]byte(told), &n); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { // it ends with who started it
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if err := n.run(ctx); err != nil {
		t.Fatal(err)
	}
}

// A record is one unit that passed: of which key, and between which times, in ns since 1970.
type record struct{ Key, From, To int64 }

const recordSize = 24

func (n *leaseNode) run(ctx context.Context) error {
	l, end, err := newRedisLease(ctx, n.URL, n.Nodes, time.Second)
	if err != nil {
		return err
	}
	defer end()
	out, err := os.OpenFile(n.Records, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	fmt.Println("ready")
	const workers = 16
	failed := make(chan error, workers)
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() { failed <- n.work(ctx, l, out, rand.New(rand.NewPCG(n.Seed, uint64(i))), n.Offered/workers) })
	}
	group.Wait()
	return <-failed
}

// work asks at a rate, and writes down what passes before it does anything else, as it may be killed.
func (n *leaseNode) work(ctx context.Context, l *lease.Limiter, out *os.File, rng *rand.Rand, rate float64) error {
	c := headgate.Check{Limit: headgate.MustParseLimit(n.Limit), Cost: 1, OnFailure: headgate.Closed}
	began, due := time.Now(), time.Duration(0)
	for ctx.Err() == nil {
		due += time.Duration(rng.ExpFloat64() / rate * float64(time.Second))
		if wait := due - time.Since(began); wait > 0 {
			time.Sleep(wait)
		} else if wait < -time.Second {
			due = time.Since(began) // it was stopped, and does not make up for that
		}
		key := rng.Int64N(int64(n.Keys))
		c.Key = fmt.Sprint("key", key)
		from := time.Now()
		d, err := l.Take(ctx, c)
		to := time.Now()
		switch {
		case err != nil && ctx.Err() == nil:
			return err
		case err != nil || !d.Allowed:
			continue
		}
		var b [recordSize]byte
		for i, v := range []int64{key, from.UnixNano(), to.UnixNano()} {
			binary.LittleEndian.PutUint64(b[8*i:], uint64(v))
		}
		if _, err := out.Write(b[:]); err != nil {
			return err
		}
	}
	return nil
}

// A nodeProcess is a node that runs.
type nodeProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
	said  *strings.Builder
}

func startLeaseNode(t *testing.T, n leaseNode) *nodeProcess {
	t.Helper()
	told, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	p := &nodeProcess{cmd: exec.Command(os.Args[0], "-test.run=^TestLeaseNode$"), said: &strings.Builder{}}
	p.cmd.Env = append(os.Environ(), leaseNodeVariable+"="+string(told))
	p.cmd.Stderr = p.said
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.kill() })
	ready := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(out, ready); err != nil {
		t.Fatalf("a node did not get ready: %v: %s", err, p.said)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // until it ends
	return p
}

func (p *nodeProcess) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *nodeProcess) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func readRecords(t *testing.T, path string) []record {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []record
	for ; len(data) >= recordSize; data = data[recordSize:] {
		number := func(i int) int64 { return int64(binary.LittleEndian.Uint64(data[8*i:])) }
		list = append(list, record{number(0), number(1), number(2)})
	}
	return list
}

//go:build unix

package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/server/control/dbtest"
)

// writerVariable, if set, makes TestMain the process that writes to that file until it is killed.
const writerVariable = "SQLITE_TEST_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerVariable); path != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func writeUntilKilled(path string) error {
	ctx := context.Background()
	db, err := Open(ctx, path)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return dbtest.Write(ctx, db, func(revision int64) { fmt.Println(revision) })
}

func TestKilledProcessLeavesChangesAtomic(t *testing.T) { killWriters(t, 30/racing.Slower) }

func TestSoakKilledProcessLeavesChangesAtomic(t *testing.T) {
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("it takes minutes: set HEADGATE_SOAK=1")
	}
	killWriters(t, 200)
}

func killWriters(t *testing.T, times int) {
	path := filepath.Join(t.TempDir(), "rules.db")
	var audit dbtest.Audit
	total, unheard := int64(0), 0
	for i := range times {
		acknowledged := killWriter(t, path, total, i%2 == 0)
		db, err := Open(t.Context(), path)
		if err != nil {
			t.Fatalf("kill %d: %v", i, err)
		}
		unheard += audit.Check(t, db, acknowledged)
		var verdict string
		if err := db.Read.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
			t.Errorf("kill %d: integrity_check: got %q, %v", i, verdict, err)
		}
		if total, _, err = db.Revision(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.Fatalf("after kill %d", i)
		}
	}
	t.Logf("%d kills, %d changes, %d of them committed and not acknowledged", times, total, unheard)
	if total == 0 {
		t.Error("nothing was ever written")
	}
}

// killWriter lets another process write for a moment, from its first change on if wanted, and returns the last
// revision that it has acknowledged.
func killWriter(t *testing.T, path string, acknowledged int64, afterFirst bool) int64 {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerVariable+"="+path)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	heard := func() bool {
		if !lines.Scan() {
			return false
		}
		if n, err := strconv.ParseInt(lines.Text(), 10, 64); err == nil {
			acknowledged = n
		}
		return true
	}
	if !heard() || afterFirst && !heard() {
		t.Fatalf("the writer ended: %v: %s", cmd.Wait(), said.String())
	}
	// A commit takes about a millisecond on a fast disk and a hundred on a slow one: this kill is within some of
	// them.
	time.AfterFunc(rand.N(40*time.Millisecond), func() { _ = cmd.Process.Kill() })
	for heard() {
	}
	_ = cmd.Wait() // it was killed
	if said.Len() > 0 {
		t.Errorf("the writer said: %s", said.String())
	}
	return acknowledged
}

package resp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

func TestTransactionsQueueAndReplyWithAnArray(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	for name, address := range map[string]string{
		"in memory": serve(t, onMemory(t, memstore.Options{})).address,
		"on Redis":  serve(t, onRedis(t, openRedis(t, server, redisstore.Options{}))).address,
	} {
		t.Run(name, func(t *testing.T) {
			converse(t, dial(t, address), []said{
				{"MULTI", "OK"},
				{"HG.TAKE per-user alice", "QUEUED"},
				{"PING", "QUEUED"},
				{"HG.TAKE per-user alice 3", "QUEUED"},
				{"HG.PEEK per-user alice", "QUEUED"},
				{"EXEC", "[1 5 4 -1 720000] PONG [1 5 1 -1 28…"},
				{"HG.PEEK per-user alice", "1 5 1 -1 …"},
				{"MULTI", "OK"},
				{"HG.TAKE per-user alice", "QUEUED"},
				{"DISCARD", "OK"},
				{"HG.PEEK per-user alice", "1 5 1 -1 …"},
				{"MULTI", "OK"},
				{"HG.TAKE per-user alice", "QUEUED"},
				{"NONSENSE", "ERR unknown command 'NONSENSE'…"},
				{"EXEC", "EXECABORT Transaction discarded because of previous errors."},
				{"HG.PEEK per-user alice", "1 5 1 -1 …"},
				{"MULTI", "OK"},
				{"HG.TAKE per-user alice", "QUEUED"},
				{"RESET", "RESET"},
				{"EXEC", "ERR EXEC without MULTI"},
				{"HG.PEEK per-user alice", "1 5 1 -1 …"},
			})
		})
	}
}

// The replies of transactions are compared with those of Redis.
func TestTransactionsReplyAsRedisDoes(t *testing.T) {
	redis := dial(t, redistest.Standalone(t, redistest.Options{}).Addr())
	ours := dial(t, serve(t, onMemory(t, memstore.Options{})).address)
	for _, line := range []string{
		"EXEC", "DISCARD", "MULTI", "MULTI", "PING", "ECHO a", "SELECT 0", "EXEC",
		"MULTI", "EXEC", "MULTI", "DISCARD", "PING", "MULTI x", "MULTI", "ECHO", "PING", "EXEC", "PING",
		"MULTI", "SELECT x", "ECHO b", "EXEC", "MULTI", "PING", "RESET", "EXEC",
	} {
		redis.send(line + "\r\n")
		ours.send(line + "\r\n")
		if got, want := ours.read(), redis.read(); got != want {
			t.Errorf("%s: got %q, want %q as Redis", line, got, want)
		}
	}
}

func TestTransactionsInAPipelineKeepTheirOrder(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	c := dial(t, serve(t, onRedis(t, openRedis(t, server, redisstore.Options{}))).address)
	const n = 50
	c.send(encode("MULTI") + strings.Repeat(encode("CL.THROTTLE", "k", fmt.Sprint(n-1), "1", "86400"), n) + encode("EXEC"))
	c.read()
	for range n {
		if got := c.read(); got != "QUEUED" {
			t.Fatalf("got %q, want QUEUED", got)
		}
	}
	replies := strings.Split(c.read(), "] [")
	if len(replies) != n {
		t.Fatalf("got %d replies, want %d", len(replies), n)
	}
	for i, got := range replies {
		want := fmt.Sprintf("0 %d %d -1 ", n, n-1-i)
		if !strings.HasPrefix(strings.TrimPrefix(got, "["), want) {
			t.Errorf("reply %d: got %q, want %q", i, got, want)
		}
	}
}

func TestTransactionsAreBounded(t *testing.T) {
	config := onMemory(t, memstore.Options{})
	config.Limits.Held = 100 << 10
	s := serve(t, config)
	c := dial(t, s.address)
	c.do("MULTI")
	for i := range 129 {
		got, want := c.do("PING"), "QUEUED"
		if i == 128 {
			want = "ERR transaction too long: at most 128 commands and 64 kB are allowed"
		}
		if got != want {
			t.Fatalf("command %d: got %q, want %q", i, got, want)
		}
	}
	c.wants("EXECABORT Transaction discarded because of previous errors.", "EXEC")

	// Transactions of several connections share one bound, and give it back when they end.
	long := strings.Repeat("x", 15<<10)
	fill := func(c *client) (queued int) {
		c.do("MULTI")
		for c.do("ECHO", long) == "QUEUED" {
			queued++
		}
		return queued
	}
	others := []*client{dial(t, s.address), dial(t, s.address)}
	if a, b := fill(others[0]), fill(others[1]); a != 4 || b != 2 {
		t.Errorf("got %d and %d commands of 15 kB queued, want 4 (64 kB each) and 2 (100 kB in all)", a, b)
	}
	others[0].do("DISCARD")
	others[1].do("DISCARD")
	if got := fill(c); got != 4 {
		t.Errorf("after DISCARD: got %d commands queued, want 4", got)
	}
}

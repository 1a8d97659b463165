package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
)

// The node uses the rules on disk until the database is reachable.
func TestNodeStartsWhileTheDatabaseIsUnreachable(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{})
	admin, state := newFile(t, "admin-token", testAdminToken), t.TempDir()
	args := func(addr string) []string {
		return []string{"--gateway-addr", "off", "--db", "redis://" + addr, "--data-dir", state, "--admin-token-file", admin}
	}
	p := serve(t, args(redis.Addr())...)
	putRule(t, rulesService(t, p), "per-user", fmt.Sprintf(perUserRule, 100))
	waitLimit(t, p, "x", 100)
	if code := p.stop(); code != 0 {
		t.Errorf("it ended with %d", code)
	}

	addr := freeAddr(t)
	p = serve(t, args(addr)...)
	waitLimit(t, p, "x", 100)
	code, status := p.status()
	if f := status.Rules.Follow; code != http.StatusOK || !status.Degraded || !f.FromDisk || f.Unreachable == "" {
		t.Errorf("without the database: got %d %+v", code, status)
	}
	if code, body := get(t, "http://"+p.admin+"/v1/rules"); code != http.StatusServiceUnavailable {
		t.Errorf("the API without the database: got %d %s", code, body)
	}
	forward(t, addr, redis.Addr())
	await.NoError(t, "the database to be there", func() error {
		if _, status := p.status(); status.Rules.Follow.FromDisk || status.Degraded {
			return fmt.Errorf("got %+v", status.Rules.Follow)
		}
		return nil
	})
	putRule(t, rulesService(t, p), "per-user", fmt.Sprintf(perUserRule, 200))
	waitLimit(t, p, "x", 200)
	if code := p.stop(); code != 0 {
		t.Errorf("it ended with %d", code)
	}

	// With neither it does not start: nobody would be limited.
	out, err := exec.Command("headgate", "serve", "--gateway-addr", "off", "--admin-addr", "off", "--api-addr", "127.0.0.1:0", "--grpc-addr", "off",
		"--resp-addr", "off", "--db", "redis://"+freeAddr(t), "--data-dir", t.TempDir()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "headgate: --db: ") {
		t.Errorf("got %v, %s", err, out)
	}
}

// The rules on disk are for an unreachable database. A database of a newer version is reachable, so the start fails.
func TestDatabaseOfANewerVersionIsRefused(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{})
	state := t.TempDir()
	args := []string{"--gateway-addr", "off", "--db", "redis://" + redis.Addr(), "--data-dir", state, "--admin-token-file", newFile(t, "admin-token", testAdminToken)}
	p := serve(t, args...)
	putRule(t, rulesService(t, p), "per-user", fmt.Sprintf(perUserRule, 100))
	waitLimit(t, p, "x", 100)
	if code := p.stop(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	const newer = "for _, key in ipairs(redis.call('KEYS', '*progress')) do redis.call('HSET', key, 'form', '999') end return 1"
	if _, err := redis.Do("EVAL", newer, "0"); err != nil {
		t.Fatal(err)
	}
	command := append([]string{"serve", "--admin-addr", "off", "--api-addr", "127.0.0.1:0", "--grpc-addr", "off", "--resp-addr", "off"}, args...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "headgate", command...).CombinedOutput()
	if err == nil || ctx.Err() != nil || !strings.Contains(string(out), "headgate: --db: ") || !strings.Contains(string(out), "newer version of headgate") {
		t.Errorf("got %v, %s, want that it ends and says why", err, out)
	}
}

// forward has what connects to one address reach another, until the test ends.
func forward(t *testing.T, from, to string) {
	t.Helper()
	l, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		group.Wait()
	})
	group.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			context.AfterFunc(ctx, func() { _, _ = in.Close(), out.Close() })
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				group.Go(func() {
					_, _ = io.Copy(pair[0], pair[1]) // until one of them ends it
					_, _ = in.Close(), out.Close()
				})
			}
		}
	})
}

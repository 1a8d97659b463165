package resp_test

import (
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/memstore"
)

func TestRedisCLI(t *testing.T) {
	config := onMemory(t, memstore.Options{})
	s := serve(t, config)
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	cli := func(stdin string, args ...string) string {
		t.Helper()
		return output(t, stdin, "redis-cli", append([]string{"-h", host, "-p", port}, args...)...)
	}
	for _, test := range []struct {
		args string
		want string
	}{
		{"PING", "PONG\n"},
		{"CL.THROTTLE user123 15 30 60", "0\n16\n15\n-1\n2\n"},
		{"-3 CL.THROTTLE user124 15 30 60 16", "0\n16\n0\n-1\n32\n"},
		{"--no-raw HG.TAKE per-user alice", "1) (integer) 1\n2) (integer) 5\n3) (integer) 4\n4) (integer) -1\n5) (integer) 720000\n"},
		{"-3 --no-raw CONFIG GET save", "1# \"save\" => \"\"\n"},
		{"--no-raw NONSENSE a", "(error) ERR unknown command 'NONSENSE', with args beginning with: 'a' \n"},
		{"-r 3 HG.PEEK for-all x", strings.Repeat("1\n5\n5\n-1\n0\n", 3)},
	} {
		if got := cli("", strings.Fields(test.args)...); got != test.want {
			t.Errorf("redis-cli %s: got %q, want %q", test.args, got, test.want)
		}
	}
	lines := strings.Repeat("CL.THROTTLE many 999 1 1000\n", 1000)
	if got := strings.Count(cli(lines), "0\n1000\n"); got != 1000 {
		t.Errorf("1000 lines: %d allowed, want 1000", got)
	}
	if got := cli(strings.Repeat(encode("HG.PEEK", "per-user", "bob"), 500), "--pipe"); !strings.Contains(got, "errors: 0, replies: 500") {
		t.Errorf("redis-cli --pipe: got %q, want 500 replies", got)
	}
}

func TestRedisCLIAuthenticates(t *testing.T) {
	config := onMemory(t, memstore.Options{})
	config.Token = token(t, "0123456789abcdef")
	host, port, err := net.SplitHostPort(serve(t, config).address)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ args, want string }{
		{"PING", "NOAUTH Authentication required.\n\n"},
		{"-a 0123456789abcdef --no-auth-warning PING", "PONG\n"},
		{"-3 --user default --pass 0123456789abcdef --no-auth-warning PING", "PONG\n"},
		{"-a wrong --no-auth-warning PING", "AUTH failed: WRONGPASS invalid username-password pair or user is disabled.\nNOAUTH Authentication required.\n\n"},
	} {
		cmd := exec.CommandContext(t.Context(), program(t, "redis-cli"), append([]string{"-h", host, "-p", port}, strings.Fields(test.args)...)...)
		got, err := cmd.CombinedOutput() // it fails with the server's error
		if string(got) != test.want {
			t.Errorf("redis-cli %s: got %q, %v, want %q", test.args, got, err, test.want)
		}
	}
}

func TestRedisBenchmark(t *testing.T) {
	s := serve(t, onMemory(t, memstore.Options{}))
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	for _, pipeline := range []int{1, 16, 500} {
		before := s.Stats()
		const n = 20_000
		got := output(t, "", "redis-benchmark", "-h", host, "-p", port, "-n", fmt.Sprint(n), "-P", fmt.Sprint(pipeline), "-r", "1000", "-c", "20",
			"--csv", "CL.THROTTLE", "key:__rand_int__", "15", "30", "60")
		if strings.Contains(got, "WARNING") || !regexp.MustCompile(`"CL\.THROTTLE[^"]*","[0-9.]+"`).MatchString(got) {
			t.Errorf("-P %d: got %q, want a rate and no warning", pipeline, got)
		}
		after := s.Stats()
		if decided := after.Allowed + after.Denied - before.Allowed - before.Denied; decided < n || after.Errors != 0 || after.Broken != 0 {
			t.Errorf("-P %d: %d decisions and %d errors, want %d and none", pipeline, decided, after.Errors, n)
		}
	}
}

func TestRueidis(t *testing.T) {
	config := onMemory(t, memstore.Options{})
	config.Token = token(t, "0123456789abcdef")
	s := serve(t, config)
	for _, test := range []struct {
		name    string
		options rueidis.ClientOption
	}{
		{"in RESP3 with its cache", rueidis.ClientOption{}},
		{"in RESP2", rueidis.ClientOption{AlwaysRESP2: true, DisableCache: true}},
		{"always in pipelines", rueidis.ClientOption{AlwaysPipelining: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := test.options
			o.InitAddress, o.Username, o.Password, o.ClientName = []string{s.address}, "default", "0123456789abcdef", "test"
			r, err := rueidis.NewClient(o)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			const n = 50
			list := make(rueidis.Commands, n)
			for i := range list {
				list[i] = r.B().Arbitrary("CL.THROTTLE").Keys("rueidis "+test.name).Args("29", "1", "3600").Build()
			}
			allowed := 0
			for i, result := range r.DoMulti(t.Context(), list...) {
				got, err := result.AsIntSlice()
				if err != nil || len(got) != 5 || got[1] != 30 {
					t.Fatalf("answer %d: %v, %v", i, got, err)
				}
				if got[0] == 0 {
					allowed++
				}
			}
			if allowed != 30 {
				t.Errorf("%d of %d allowed, want 30", allowed, n)
			}
			err = r.Do(t.Context(), r.B().Arbitrary("HG.TAKE").Args("nobodys").Keys("x").Build()).Error()
			if fault, ok := rueidis.IsRedisErr(err); !ok || !strings.Contains(fault.Error(), "engine: no such rule") {
				t.Errorf("an unknown rule: got %v, want an error of Redis's", err)
			}
			if err := r.Do(t.Context(), r.B().Arbitrary("HG.RESET").Args("per-user").Keys("x").Build()).Error(); err != nil {
				t.Errorf("reset: %v", err)
			}
		})
	}
}

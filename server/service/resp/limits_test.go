package resp_test

import (
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/service/resp"
)

func TestGarbageGetsAnErrorAndIsClosed(t *testing.T) {
	s := serve(t, onMemory(t, memstore.Options{}))
	bystander := dial(t, s.address)
	bystander.wants("PONG", "PING")
	tests := []struct{ name, send, want string }{
		{"a line that does not end", strings.Repeat("x", 5000), "too big inline request"},
		{"an open quote", "ECHO \"a\r\n", "unbalanced quotes in request"},
		{"something behind a quote", "ECHO \"a\"b\r\n", "unbalanced quotes in request"},
		{"no number of arguments", "*x\r\n", "invalid multibulk length"},
		{"a huge number of arguments", "*1000000000\r\n", "invalid multibulk length"},
		{"a number that overflows", "*99999999999999999999\r\n", "invalid multibulk length"},
		{"too many arguments", "*257\r\n", "invalid multibulk length"},
		{"no bulk", "*1\r\n:1\r\n", "expected '$', got ':'"},
		{"a negative length", "*1\r\n$-1\r\n", "invalid bulk length"},
		{"a huge length", "*1\r\n$2147483647\r\n", "invalid bulk length"},
		{"a length that overflows", "*1\r\n$18446744073709551617\r\n", "invalid bulk length"},
		{"no length", "*1\r\n$\r\n", "invalid bulk length"},
		{"a bulk that is longer than it says", "*1\r\n$4\r\nPINGPONG\r\n", "expected CRLF after bulk"},
		{"arguments that are too long together", "*10\r\n" + strings.Repeat("$16000\r\n"+strings.Repeat("x", 16000)+"\r\n", 5), "too big request"},
		{"bytes", "\x00\x01\x02\xff\n", ""},
		{"answers", "+PONG\r\n", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := dial(t, s.address)
			c.send("PING\r\n" + test.send)
			if got := c.read(); got != "PONG" {
				t.Errorf("got %q for what came before, want PONG", got)
			}
			if test.want == "" { // the start of a valid command
				if got := c.read(); !strings.HasPrefix(got, "ERR unknown command") {
					t.Errorf("got %q, want an error", got)
				}
				c.wants("PONG", "PING")
				return
			}
			if got, want := c.closed(), "-ERR Protocol error: "+test.want+"\r\n"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	bystander.wants("PONG", "PING")
	if got := s.Stats().Broken; got != 14 {
		t.Errorf("got %d connections that ended with a protocol error, want 14", got)
	}
}

func TestHTTPClientsAreClosed(t *testing.T) {
	s := serve(t, onMemory(t, memstore.Options{}))
	c := dial(t, s.address)
	c.send("POST / HTTP/1.1\r\nHost: localhost\r\n\r\nCL.THROTTLE a 0 1 3600\r\n")
	if got := c.closed(); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
	dial(t, s.address).wants("0 1 0 -1 3600", "CL.THROTTLE", "a", "0", "1", "3600")
}

func TestLargeCommandsWithinTheLimitsAreTaken(t *testing.T) {
	s := serve(t, onMemory(t, memstore.Options{}))
	c := dial(t, s.address)
	long := strings.Repeat("x", 16<<10)
	c.wants(long, "ECHO", long)
	many := append([]string{"COMMAND", "DOCS"}, strings.Fields(strings.Repeat(long[:4000]+" ", 15))...)
	c.wants("", many...) // some 60 kB
	many = append([]string{"COMMAND", "INFO"}, strings.Fields(strings.Repeat("x ", 254))...)
	c.wants(strings.TrimSpace(strings.Repeat("[(null)] ", 254)), many...)
}

func TestStalledCommandIsClosed(t *testing.T) {
	config := onMemory(t, memstore.Options{})
	config.Limits.CommandTimeout = time.Second / 2
	s := serve(t, config)
	bystander := dial(t, s.address)
	bystander.wants("PONG", "PING")
	for _, test := range []struct{ name, send string }{
		{"nothing", ""},
		{"empty lines", "\r\n\r\n"},
		{"half a command", "*2\r\n$4\r\nEC"},
		{"half a command behind a whole one", "PING\r\n*2\r\n$4\r\nEC"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := dial(t, s.address)
			c.send(test.send)
			c.closed()
		})
	}
	t.Run("drop by drop", func(t *testing.T) {
		c := dial(t, s.address)
		long := encode("ECHO", strings.Repeat("x", 10000))
		for i := 0; ; i++ {
			if i == len(long) {
				t.Fatal("a command could take as long as it wanted to")
			}
			if _, err := io.WriteString(c.Conn, long[i:i+1]); err != nil {
				return // disconnected
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	bystander.wants("PONG", "PING") // idle, not stalled
	if got := s.Stats().Expired; got != 5 {
		t.Errorf("got %d connections that were closed for their silence, want 5", got)
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	config := onMemory(t, memstore.Options{})
	config.Limits.IdleTimeout = time.Second / 2
	s := serve(t, config)
	c := dial(t, s.address)
	c.wants("PONG", "PING")
	if got := c.closed(); got != "" {
		t.Errorf("got %q", got)
	}
	await.True(t, "it is gone", func() bool { return s.Stats().Open == 0 })
}

func TestClientThatNeverReadsIsClosed(t *testing.T) {
	config := onMemory(t, memstore.Options{})
	config.Limits.WriteTimeout = time.Second / 2
	s := serve(t, config)
	bystander := dial(t, s.address)
	c := dial(t, s.address)
	if err := c.Conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	ask := []byte(strings.Repeat(encode("ECHO", strings.Repeat("x", 1000)), 100))
	sent := make(chan int)
	go func() {
		total := 0
		for {
			n, err := c.Write(ask)
			if total += n; err != nil {
				sent <- total
				return
			}
		}
	}()
	total := <-sent
	if most := 64 << 20; total > most {
		t.Errorf("it sent %d bytes before it was closed, want less than %d", total, most)
	}
	bystander.wants("PONG", "PING")
	await.True(t, "it is gone", func() bool { return s.Stats().Open == 1 })
}

func TestExcessConnectionsGetAnError(t *testing.T) {
	config := onMemory(t, memstore.Options{})
	config.Limits.Conns = 2
	s := serve(t, config)
	first, second := dial(t, s.address), dial(t, s.address)
	first.wants("PONG", "PING")
	second.wants("PONG", "PING")
	if got := dial(t, s.address).closed(); got != "-ERR max number of clients reached\r\n" {
		t.Errorf("the third: got %q", got)
	}
	first.hangUp()
	await.True(t, "there is room", func() bool { return s.Stats().Open == 1 })
	dial(t, s.address).wants("PONG", "PING")
	if n := s.Stats(); n.Refused != 1 || n.Accepted != 3 {
		t.Errorf("got %d refused and %d accepted, want 1 and 3", n.Refused, n.Accepted)
	}
}

func TestIncompleteCommandsAreBoundedInTotal(t *testing.T) {
	config := onMemory(t, memstore.Options{})
	config.Limits.Held = 100 << 10
	s := serve(t, config)
	half := "*4\r\n" + strings.Repeat("$15000\r\n"+strings.Repeat("x", 15000)+"\r\n", 3)
	var list []*client
	refused := 0
	for range 8 {
		c := dial(t, s.address)
		c.send(half)
		list = append(list, c)
	}
	await.True(t, "most are closed", func() bool { return s.Stats().Open <= 3 })
	for _, c := range list {
		if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if said, _ := io.ReadAll(c.r); strings.HasPrefix(string(said), "-ERR out of memory") {
			refused++
		}
	}
	if refused < 5 || refused > 7 {
		t.Errorf("%d of 8 were refused, want those for whom there was no room", refused)
	}
	for _, c := range list {
		c.hangUp()
	}
	await.True(t, "all are gone", func() bool { return s.Stats().Open == 0 })
	c := dial(t, s.address) // their memory is free again
	c.send(half[:40000])
	c.send(half[40000:] + "$4\r\nPING\r\n")
	if got := c.read(); !strings.HasPrefix(got, "ERR unknown command") {
		t.Errorf("got %q, want an answer", got)
	}
}

func TestIdleConnectionsHoldLittle(t *testing.T) {
	const conns, most = 2000, 24 << 10 // bytes each, those of the kernel not counted
	config := onMemory(t, memstore.Options{})
	config.Limits.CommandTimeout = time.Hour
	s := serve(t, config)
	used := func() uint64 {
		runtime.GC()
		runtime.GC() // the second one empties pools
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before := used()
	for range conns {
		c, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, encode("CL.THROTTLE", "a", "1", "1", "1")+"*2\r\n$4\r\nEC"); err != nil {
			t.Fatal(err)
		}
	}
	await.True(t, "all are served", func() bool { return s.Stats().Commands == conns })
	each := int64(used()-before) / conns
	t.Logf("%d bytes a connection, the client's side of it included", each)
	if each > most {
		t.Errorf("a connection that waits with half a command holds %d bytes, want at most %d", each, most)
	}
}

func TestInvalidSettingsAreRefused(t *testing.T) {
	good := onMemory(t, memstore.Options{})
	for name, spoil := range map[string]func(*resp.Config){
		"no engine":         func(c *resp.Config) { c.Engine = nil },
		"no store":          func(c *resp.Config) { c.Store = nil },
		"a policy":          func(c *resp.Config) { c.OnFailure = 9 },
		"negative conns":    func(c *resp.Config) { c.Limits.Conns = -1 },
		"few arguments":     func(c *resp.Config) { c.Limits.Args = 3 },
		"bulk over command": func(c *resp.Config) { c.Limits.Bulk = 1 << 20 },
		"huge command":      func(c *resp.Config) { c.Limits.Command = 1 << 30 },
		"negative timeout":  func(c *resp.Config) { c.Limits.WriteTimeout = -1 },
	} {
		c := good
		spoil(&c)
		if _, err := resp.New(c); err == nil || !strings.HasPrefix(err.Error(), "resp: ") {
			t.Errorf("%s: got %v, want an error of resp", name, err)
		}
	}
}

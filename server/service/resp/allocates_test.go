package resp

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// A sink is a connection that discards replies.
type sink struct{ net.Conn }

func (sink) Write(b []byte) (int, error)      { return len(b), nil }
func (sink) SetWriteDeadline(time.Time) error { return nil }
func (sink) Read([]byte) (int, error)         { return 0, io.EOF }

// readyConn returns a connection of a server that counts in memory, and a workspace.
func readyConn(t testing.TB, bind bool) (*conn, *workspace) {
	t.Helper()
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	set, err := match.Compile([]rules.Rule{
		{ID: "per-user", Key: []headgate.Attribute{{Kind: headgate.AttrUser}}, Limits: []rules.Limit{{Limit: headgate.PerSecond(10)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Store: store, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	config := Config{Engine: e, Store: store}
	if bind {
		config.Bind = func(l headgate.Limit) (Bound, error) { return store.Prepare(l, headgate.Open) }
	}
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &conn{server: s, net: sink{}}
	c.reset(s)
	w, _ := c.acquireWorkspace()
	return c, w
}

var hotCommands = map[string]string{
	"CL.THROTTLE": "*5\r\n$11\r\nCL.THROTTLE\r\n$16\r\nkey:000000012345\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n",
	"HG.TAKE":     "*3\r\n$7\r\nHG.TAKE\r\n$8\r\nper-user\r\n$5\r\nalice\r\n",
	"HG.PEEK":     "*3\r\n$7\r\nHG.PEEK\r\n$8\r\nper-user\r\n$5\r\nalice\r\n",
	"PING":        "*1\r\n$4\r\nPING\r\n",
}

func TestDecisionsInMemoryAllocateNothing(t *testing.T) {
	for _, bind := range []bool{true, false} {
		c, w := readyConn(t, bind)
		for name, one := range hotCommands {
			text := strings.Repeat(one, 16)
			got := testing.AllocsPerRun(100, func() {
				if err := c.executeAll(w, copy(w.in, text)); err != nil {
					t.Fatal(err)
				}
			})
			if got != 0 {
				t.Errorf("16 of %s, bound %v: %v allocations, want 0", name, bind, got)
			}
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	for name, one := range hotCommands {
		b.Run(name, func(b *testing.B) {
			c, w := readyConn(b, true)
			const batch = 16
			text := strings.Repeat(one, batch)
			b.ReportAllocs()
			for i := 0; i < b.N; i += batch {
				if err := c.executeAll(w, copy(w.in, text)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

//go:build !race

package downstream

import (
	"bytes"
	"net"
	"net/http"
	"testing"
)

var small = []byte("hello, world")

func greet(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(small) }

// ask sends a request to greet and reads the response.
func ask(c net.Conn, request, buffer []byte) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	for n := 0; !bytes.HasSuffix(buffer[:n], small); {
		got, err := c.Read(buffer[n:])
		if err != nil {
			return err
		}
		n += got
	}
	return nil
}

// A request allocates its header's text and nothing else.
func TestRequestAllocatesOnce(t *testing.T) {
	s := start(t, greet)
	c, _ := dial(t, s.addr)
	request, buffer := []byte(get("/search?q=shoes", "User-Agent: test", "X-API-Key: k")), make([]byte, 4096)
	got := testing.AllocsPerRun(200, func() {
		if err := ask(c, request, buffer); err != nil {
			t.Fatal(err)
		}
	})
	if got > 1 {
		t.Errorf("%v allocations, want 1", got)
	}
}

// BenchmarkServe compares a request and its response with the same by net/http. The client is in the same process, so
// it understates the difference.
func BenchmarkServe(b *testing.B) {
	ours := start(b, greet)
	for _, to := range []struct{ name, addr string }{{"net/http", reference(b, greet)}, {"downstream", ours.addr}} {
		b.Run(to.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				c, err := net.Dial("tcp", to.addr)
				if err != nil {
					b.Error(err)
					return
				}
				defer func() { _ = c.Close() }()
				request, buffer := []byte(get("/search?q=shoes", "User-Agent: test", "X-API-Key: k")), make([]byte, 4096)
				for pb.Next() {
					if err := ask(c, request, buffer); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

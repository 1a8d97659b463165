//go:build !race

package upstream

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

func TestForwardAllocations(t *testing.T) {
	for name, tt := range map[string]struct {
		response string
		want     float64
	}{
		// The headers: one string that has them all, one slice of their values.
		"of known length": {typicalResponse, 2},
		"in chunks": {strings.Replace(strings.Replace(typicalResponse, "Content-Length: 27", "Transfer-Encoding: chunked", 1),
			"\r\n\r\n{", "\r\n\r\n1b\r\n{", 1) + "\r\n0\r\n\r\n", 2},
		"without headers": {"HTTP/1.1 204 No Content\r\n\r\n", 1},
		"like nginx's":    {strings.Replace(typicalResponse, "Server", "Connection: keep-alive\r\nServer", 1), 2},
	} {
		p := constantUpstream(t, tt.response)
		r, h := typicalRequest(), typicalHead()
		w := &sink{header: http.Header{}}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		forward := func() {
			clear(w.header)
			if _, err := p.Forward(ctx, w, r, h); err != nil {
				t.Fatal(err)
			}
		}
		forward()
		if got := testing.AllocsPerRun(500, forward); got > tt.want {
			t.Errorf("%s: allocates %v times, want %v", name, got, tt.want)
		}
	}
}

func TestHeadsAllocateNothing(t *testing.T) {
	r, h := typicalRequest(), typicalHead()
	var body requestBody
	out := make([]byte, 0, 4096)
	if got := testing.AllocsPerRun(100, func() { out, _ = appendHead(out[:0], r, &h, &body) }); got != 0 {
		t.Errorf("the head of a request: allocates %v times, want 0", got)
	}
	var head responseHead
	text, block := []byte(typicalResponse), make([]byte, len(typicalResponse))
	if got := testing.AllocsPerRun(100, func() {
		copy(block, text)
		from := 0
		_ = head.parse(block[:http1.HeadEnd(block, &from)])
	}); got != 0 {
		t.Errorf("the head of a response: allocates %v times, want 0", got)
	}
}

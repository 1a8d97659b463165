package downstream

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A step is one operation of a handler on its response.
type step struct {
	name string
	do   func(w http.ResponseWriter, r *http.Request) string
}

func sets(name string, values ...string) step {
	return step{fmt.Sprintf("set %s %q", name, values), func(w http.ResponseWriter, _ *http.Request) string {
		w.Header()[name] = slices.Clone(values)
		return ""
	}}
}

func writes(text string) step {
	return step{fmt.Sprintf("write %d %.8q", len(text), text), func(w http.ResponseWriter, _ *http.Request) string {
		n, err := io.WriteString(w, text)
		return fmt.Sprint(n, err)
	}}
}

func begins(status int) step {
	return step{fmt.Sprint("status ", status), func(w http.ResponseWriter, _ *http.Request) string {
		w.WriteHeader(status)
		return ""
	}}
}

func (s *step) rank() int {
	if strings.HasPrefix(s.name, "read") || strings.HasPrefix(s.name, "close") {
		return 0
	}
	return 1
}

var steps = func() []step {
	all := []step{
		{"flush", func(w http.ResponseWriter, _ *http.Request) string { w.(http.Flusher).Flush(); return "" }},
		{"read", func(_ http.ResponseWriter, r *http.Request) string {
			b, err := io.ReadAll(io.LimitReader(r.Body, 3))
			return fmt.Sprintf("%q %v", b, err)
		}},
		{"read all", func(_ http.ResponseWriter, r *http.Request) string {
			b, err := io.ReadAll(r.Body)
			return fmt.Sprintf("%d %v", len(b), err)
		}},
		{"close body", func(_ http.ResponseWriter, r *http.Request) string { return fmt.Sprint(r.Body.Close()) }},
		{"delete type", func(w http.ResponseWriter, r *http.Request) string { w.Header().Del("Content-Type"); return "" }},
		sets("Content-Type", "text/x"), sets("Content-Type"), sets("Content-Type", ""), sets("Content-Encoding", "gzip"), sets("Content-Encoding", ""),
		sets("Content-Length", "0"), sets("Content-Length", "5"), sets("Content-Length", "5000"),
		sets("Connection", "close"), sets("Connection", "keep-alive"),
		sets("X-A", "b"), sets("X-A", "b\r\nX-B: c"), sets("x-a", "lower"), sets("X A", "y"), sets("X-Two", "1", "2"), sets("X-Empty", ""),
		sets("Trailer", "X-T"), sets("X-T", "1"), sets("Trailer", "X-T, X-U"),
		sets("Date"), sets("Set-Cookie", "a=b", "c=d"),
	}
	for _, status := range []int{200, 200, 201, 204, 304, 404, 500, 299, 103, 102, 205, 429} {
		all = append(all, begins(status))
	}
	for _, n := range []int{0, 1, 4, 5, 100, 511, 512, 513, 2047, 2048, 2049, 4096, 5000, 8192, 10000, 40000} {
		all = append(all, writes(strings.Repeat("a", n)), writes(("<html>" + strings.Repeat("b", n))[:n]), writes(strings.Repeat("\x01", n)))
	}
	return all
}()

// Handlers do the same on both servers, and clients get the same. Invalid operations are not compared, such as an
// invalid Content-Length, because net/http then sends invalid responses.
func TestHandlerProgramsMatchNetHTTP(t *testing.T) {
	var (
		mu      sync.Mutex
		program []step
		said    []string
	)
	h := func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/next" {
			return
		}
		said = nil
		for _, s := range program {
			said = append(said, s.name+": "+s.do(w, r))
		}
	}
	ours := start(t, h)
	theirs := reference(t, h)
	requests := []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
	}
	random := rand.New(rand.NewPCG(1, 2)) // the same in each run
	for range 1000 {
		request := requests[random.IntN(len(requests))]
		some := make([]step, 1+random.IntN(7))
		for i := range some {
			some[i] = steps[random.IntN(len(steps))]
		}
		// Once the response has begun, net/http has no more of the body read.
		slices.SortStableFunc(some, func(a, b step) int { return cmp.Compare(a.rank(), b.rank()) })
		run := func(addr string) (string, []string) {
			mu.Lock()
			program, said = some, nil
			mu.Unlock()
			got := talk(t, addr, request)
			mu.Lock()
			defer mu.Unlock()
			return got, said
		}
		got, heard := run(ours.addr)
		want, wanted := run(theirs)
		if got != want || !slices.Equal(heard, wanted) {
			var names []string
			for _, s := range some {
				names = append(names, s.name)
			}
			t.Errorf("%.10q %q\n got %s\nwant %s\n handler got %q\nhandler want %q", request, names, got, want, heard, wanted)
		}
	}
}

func talk(t *testing.T, addr, request string) string {
	c, r := dial(t, addr)
	defer func() { _ = c.Close() }()
	send(t, c, request)
	method, _, _ := strings.Cut(request, " ")
	var b strings.Builder
	b.WriteString(readOne(r, method))
	if _, err := io.WriteString(c, "GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err == nil {
		b.WriteString("\n    then " + readOne(r, "GET"))
	}
	return b.String()
}

func readOne(r *bufio.Reader, method string) string {
	var b strings.Builder
	for {
		res, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return b.String() + " nothing"
		}
		res.Header.Del("Date")
		fmt.Fprintf(&b, "%s", res.Status)
		for _, name := range slices.Sorted(maps.Keys(res.Header)) {
			fmt.Fprintf(&b, " %s: %q", name, res.Header[name])
		}
		if res.StatusCode < 200 {
			b.WriteString(" | ")
			continue
		}
		body, err := io.ReadAll(res.Body)
		fmt.Fprintf(&b, " length %d %q close %t body %d %.10q %v trailer %q", res.ContentLength, res.TransferEncoding, res.Close, len(body), body, err, res.Trailer)
		return b.String()
	}
}

package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// A recording is a connection whose upstream has sent everything in advance.
type recording struct {
	net.Conn
	text  []byte
	size  int // of a read, at most
	after error
}

func (r *recording) Read(b []byte) (int, error) {
	if len(r.text) == 0 {
		return 0, r.after
	}
	n := copy(b[:min(len(b), r.size)], r.text)
	r.text = r.text[n:]
	return n, nil
}

func (r *recording) Write(b []byte) (int, error)      { return len(b), nil }
func (r *recording) Close() error                     { return nil }
func (r *recording) SetDeadline(time.Time) error      { return nil }
func (r *recording) SetReadDeadline(time.Time) error  { return nil }
func (r *recording) SetWriteDeadline(time.Time) error { return nil }

// A received is what a client gets, as seen by a ResponseWriter.
type received struct {
	header  http.Header
	status  int
	sent    http.Header // the headers when the status was sent
	body    bytes.Buffer
	interim []int
}

func (r *received) Header() http.Header { return r.header }
func (r *received) Flush()              {}

func (r *received) WriteHeader(status int) {
	if status < 200 {
		r.interim = append(r.interim, status)
		return
	}
	r.status, r.sent = status, r.header.Clone()
}

func (r *received) Write(b []byte) (int, error) { return r.body.Write(b) }

// forwardRecorded forwards a request to an upstream that responds with text, of which size bytes arrive at a time.
func forwardRecorded(method string, text []byte, size int) (got *received, reused bool, err error) {
	p, err := New(Config{
		Address:        "recording:80",
		MaxHeaderBytes: maxHeaderBytes,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			return &recording{text: bytes.Clone(text), size: size, after: io.EOF}, nil
		},
	})
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = p.Close() }()
	r := &http.Request{Method: method, Host: "a", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}}
	got = &received{header: http.Header{}}
	_, err = p.Forward(context.Background(), got, r, Head{Target: "/"})
	return got, p.Stats().Released == 1, err
}

// A reference is what net/http reads of the same bytes.
type reference struct {
	*http.Response
	body    []byte
	left    int   // bytes that were not read
	interim []int // statuses
	err     error
}

func readReference(method string, text []byte) (ref reference) {
	source := bytes.NewReader(text)
	in := bufio.NewReaderSize(source, 1<<16)
	for {
		ref.Response, ref.err = http.ReadResponse(in, &http.Request{Method: method})
		if ref.err != nil {
			return ref
		}
		if ref.StatusCode >= 200 || ref.StatusCode < 100 || ref.StatusCode == 101 {
			break
		}
		ref.interim = append(ref.interim, ref.StatusCode)
	}
	ref.body, ref.err = io.ReadAll(ref.Body)
	ref.left = source.Len() + in.Buffered()
	return ref
}

// stricter has the errors for responses that only this package refuses; doc.go lists them. Each has a function that
// checks that the error is right, from the text and from what net/http has read.
var stricter = map[error]func(ref reference, text []byte) bool{
	errFolded:            func(_ reference, text []byte) bool { return containsAny(text, "\n ", "\n\t") },
	errVersion:           func(ref reference, _ []byte) bool { return ref.ProtoMajor != 1 || len(ref.interim) > 0 },
	errUpgrade:           func(ref reference, _ []byte) bool { return ref.StatusCode == 101 },
	errLengthAndEncoding: func(_ reference, text []byte) bool { return containsFold(text, "content-length") },
	errEncoding:          func(_ reference, text []byte) bool { return bytes.Contains(text, []byte("HTTP/1.0")) },
	http1.ErrFieldName: func(_ reference, text []byte) bool {
		// net/http accepts spaces in names, also in trailers.
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			if name, _, ok := bytes.Cut(line, []byte(":")); ok && bytes.IndexByte(name, ' ') >= 0 {
				return true
			}
		}
		return false
	},
	errStatusLine: func(ref reference, text []byte) bool {
		line, _, _ := bytes.Cut(text, []byte("\n"))
		return ref.StatusCode < 100 || len(ref.interim) > 0 || !http1.IsValue(bytes.TrimSuffix(line, []byte("\r")))
	},
	errBareLF: func(_ reference, text []byte) bool {
		return bytes.Count(text, []byte("\n")) > bytes.Count(text, []byte("\r\n"))
	},
	errTooManyInterim: func(ref reference, _ []byte) bool { return len(ref.interim) > maxInterim },
}

func containsAny(text []byte, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return bytes.Contains(text, []byte(part)) })
}

func containsFold(text []byte, part string) bool {
	return bytes.Contains(bytes.ToLower(text), []byte(part))
}

// endToEnd returns the headers that a client should get.
func endToEnd(h http.Header, named []string, keep func(string) bool) http.Header {
	h = maps.Clone(h)
	maps.DeleteFunc(h, func(name string, values []string) bool {
		return len(values) == 0 || !keep(name) || slices.ContainsFunc(named, func(n string) bool { return strings.EqualFold(n, name) })
	})
	return h
}

// FuzzResponse compares what the client gets with what net/http reads of the same bytes. Accepted responses are equal.
// Responses that net/http refuses are refused. If only this package refuses a response, it is a documented case.
func FuzzResponse(f *testing.F) {
	for _, seed := range responseSeeds {
		for method := range 2 {
			f.Add([]byte(seed), method == 1, uint16(len(seed)))
			f.Add([]byte(seed), method == 1, uint16(7))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, head bool, size uint16) {
		method := http.MethodGet
		if head {
			method = http.MethodHead
		}
		got, reused, err := forwardRecorded(method, text, int(size)+1)
		ref := readReference(method, text)
		if err != nil {
			if ref.err == nil {
				expectStricter(t, err, ref, text)
			}
			return
		}
		if ref.err != nil {
			t.Fatalf("we took what net/http refuses with %v: %d %q", ref.err, got.status, got.body.Bytes())
		}
		compareResponse(t, got, ref, reused)
	})
}

func expectStricter(t *testing.T, err error, ref reference, text []byte) {
	t.Helper()
	for reason, sign := range stricter {
		if errors.Is(err, reason) {
			if !sign(ref, text) {
				t.Fatalf("refused with %v, but nothing of that kind is there; net/http read %v %v", err, ref.Status, ref.Header)
			}
			return
		}
	}
	t.Fatalf("refused with %v what net/http takes: %v %v %q", err, ref.Status, ref.Header, ref.body)
}

func compareResponse(t *testing.T, got *received, ref reference, reused bool) {
	t.Helper()
	if got.status != ref.StatusCode || !bytes.Equal(got.body.Bytes(), ref.body) {
		t.Fatalf("got %d %q, want %d %q", got.status, got.body.Bytes(), ref.StatusCode, ref.body)
	}
	var interim []int
	for _, status := range ref.interim {
		if status != http.StatusContinue {
			interim = append(interim, status)
		}
	}
	if !slices.Equal(got.interim, interim) {
		t.Fatalf("interim responses: got %v, want %v", got.interim, interim)
	}
	// net/http removes Connection if it has close, so its response does not show the other names in it.
	var named []string
	for name := range http1.Elements(ref.Header["Connection"]...) {
		named = append(named, name)
	}
	if !ref.Close {
		notOurs := func(name string) bool {
			return name == "Content-Length" || !http1.IsReserved(name) || name == "Expect" || name == "Host"
		}
		want := endToEnd(ref.Header, named, notOurs)
		if v := want["Pragma"]; len(v) > 0 && v[0] == "no-cache" {
			// net/http adds a Cache-Control for it.
			if len(got.sent["Cache-Control"]) == 0 {
				delete(want, "Cache-Control")
			}
		}
		have := endToEnd(got.sent, nil, func(name string) bool { return name != "Trailer" })
		if !maps.EqualFunc(have, want, slices.Equal) {
			t.Fatalf("headers:\n got %q\nwant %q", have, want)
		}
	}
	trailer := http.Header{}
	for name, values := range got.header {
		if bare, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			trailer[bare] = values
		} else if http1.HasElement(got.sent["Trailer"], name) && len(values) > 0 {
			trailer[name] = values
		}
	}
	if want := endToEnd(ref.Trailer, named, http1.MayTrail); !maps.EqualFunc(trailer, want, slices.Equal) && !ref.Close {
		t.Fatalf("trailers: got %q, want %q", trailer, want)
	}
	if reused && ref.Close || !reused && !ref.Close && ref.left == 0 {
		t.Fatalf("connection used again: got %v; net/http says close: %v, bytes left: %d", reused, ref.Close, ref.left)
	}
}

var responseSeeds = []string{
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, and more than that",
	"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;a=b\r\n world\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-A, X-B\r\n\r\n1\r\na\r\n0\r\nX-A: 1\r\nX-C: 2\r\nx-a: 3\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nContent-Length: 1\r\nSet-Cookie: a\r\nX: y\n\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n1\r\na\r\n0\r\n\r\n",
	"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
	"HTTP/1.0 200 OK\r\n\r\nuntil the end",
	"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 200 OK\nA: b\nContent-Length: 1\n\nx",
	"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\nEtag: x\r\n\r\n",
	"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
	"HTTP/1.1 200 OK\r\nConnection: X-A, close\r\nX-A: 1\r\nX-B: 2\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nConnection: x-a\r\nX-A: 1\r\nKeep-Alive: timeout=3\r\nSet-Cookie: a\r\nset-cookie: b\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nA : b\r\nContent-Length: 0\r\n\r\n",
	"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 +12 OK\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 O\x00K\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
	"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
	"HTTP/1.1 200 OK\r\nPragma: no-cache\r\nContent-Length: 007\r\n\r\n1234567",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\nabc",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTrailer: X-A\r\nContent-Length: 0\r\n\r\n",
}

var _ net.Conn = (*recording)(nil)

func TestReferenceSeedsCoverEveryExceptionThatIsDocumented(t *testing.T) {
	seen := map[error]bool{errTooManyInterim: true} // has a test of its own
	for _, seed := range responseSeeds {
		_, _, err := forwardRecorded(http.MethodGet, []byte(seed), len(seed))
		if ref := readReference(http.MethodGet, []byte(seed)); err == nil || ref.err != nil {
			continue
		}
		for reason := range stricter {
			if errors.Is(err, reason) {
				seen[reason] = true
			}
		}
	}
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for reason := range stricter {
		if !seen[reason] {
			t.Errorf("no seed is refused with %q and taken by net/http", reason)
		}
		if !strings.Contains(strings.ReplaceAll(string(text), "\n// ", " "), reason.Error()) {
			t.Errorf("doc.go does not list %q", reason)
		}
	}
}

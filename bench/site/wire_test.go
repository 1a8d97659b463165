package site

import (
	"bufio"
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestRequestsAreCountedWholeAndTheRestIsKept(t *testing.T) {
	one, post := LoadRequests()[0], PostRequests()[0]
	for _, test := range []struct {
		name, text string
		requests   int
		rest       string
	}{
		{"nothing", "", 0, ""},
		{"one", one, 1, ""},
		{"two at once", one + one, 2, ""},
		{"the beginning of one", one[:20], 0, one[:20]},
		{"one and the beginning of another", one + one[:5], 1, one[:5]},
		{"all but the last byte", one[:len(one)-1], 0, one[:len(one)-1]},
		{"one with a body", post + one, 2, ""},
		{"all but the last byte of a body", post[:len(post)-1], 0, post[:len(post)-1]},
	} {
		requests, rest := 0, []byte(test.text)
		for {
			_, whole, after, err := takeRequest(rest)
			if err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
			if !whole {
				break
			}
			requests, rest = requests+1, after
		}
		if requests != test.requests || string(rest) != test.rest {
			t.Errorf("%s: got %d requests, the rest %q; want %d and %q", test.name, requests, rest, test.requests, test.rest)
		}
	}
	for _, text := range []string{"POST / HTTP/1.1\r\n\r\n", "PUT / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"} {
		if _, _, _, err := takeRequest([]byte(text)); err == nil {
			t.Errorf("%q is accepted, whose body would be taken for a request", text)
		}
	}
	for i, list := range [][]string{LoadRequests(), LargeRequests()} {
		if large, _, _, _ := takeRequest([]byte(list[0])); large != (i == 1) {
			t.Errorf("%q: a large response is wanted: %v", list[0], large)
		}
	}
}

func TestAResponseIsWholeOnceItsBodyIs(t *testing.T) {
	const text = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nX: y\r\n\r\nhi"
	for n := range len(text) {
		if _, length, err := takeResponse([]byte(text[:n])); err != nil || length != 0 {
			t.Fatalf("%q: length %d, %v; want it not to be whole", text[:n], length, err)
		}
	}
	const refusal = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"
	for _, test := range []struct {
		name, text     string
		status, length int
		ok             bool
	}{
		{"one", text, 200, len(text), true},
		{"one and what does not belong to it", text + "more", 200, len(text), true},
		{"the upstream's", string(upstreamAnswer(UpstreamBody)), 200, len(upstreamAnswer(UpstreamBody)), true},
		{"a refusal without a body", refusal, 429, len(refusal), true},
		{"one in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, 0, false},
		{"one of a strange length", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n", 0, 0, false},
		{"something else", "SSH-2.0-OpenSSH_9.2\r\n\r\n", 0, 0, false},
		{"no number", "HTTP/1.1 OK!!\r\n\r\n", 0, 0, false},
	} {
		status, length, err := takeResponse([]byte(test.text))
		if status != test.status || length != test.length || (err == nil) != test.ok {
			t.Errorf("%s: got status %d, length %d, %v; want %d, %d, no error %v", test.name, status, length, err, test.status, test.length, test.ok)
		}
	}
}

func TestRequestsAreWhatTheStandardLibraryReads(t *testing.T) {
	seen := map[string]bool{}
	for _, text := range slices.Concat(LoadRequests(), LargeRequests(), ClosingRequests(), PostRequests()) {
		parsed, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if parsed.Host != LoadHost || !strings.HasPrefix(parsed.URL.Path, "/api/v1/orders/") {
			t.Fatalf("%q asks %s for %s", text, parsed.Host, parsed.URL.Path)
		}
		seen[parsed.Header.Get("X-API-Key")] = true
	}
	if len(seen) != LoadClients {
		t.Errorf("the requests are of %d clients, want %d", len(seen), LoadClients)
	}
	if !bytes.HasSuffix(upstreamAnswer(UpstreamBody), []byte(UpstreamBody)) {
		t.Errorf("the upstream's answer %q does not end with its body", upstreamAnswer(UpstreamBody))
	}
}

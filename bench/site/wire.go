package site

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// This file has the text of requests and responses. All loads send the same requests, and all upstreams send the same
// response.

// LoadHost is the host in requests. It is never resolved.
const LoadHost = "shop.example.com"

// LoadClients is the number of clients. They send requests in turn, and each has a key of its own.
const LoadClients = 1000

// LoadRequests returns the text of one request of each client.
func LoadRequests() []string {
	texts := make([]string, LoadClients)
	for i := range texts {
		texts[i] = loadRequest(10_000+i, fmt.Sprintf("client-%06d", i))
	}
	return texts
}

func loadRequest(order int, client string) string {
	return fmt.Sprintf("GET /api/v1/orders/%d HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench/1\r\nAccept: application/json\r\n"+
		"X-API-Key: %s\r\n\r\n", order, LoadHost, client)
}

// floodRequest is the request of the flooding client.
var floodRequest = []byte(loadRequest(1, "noisy-client"))

// FloodConnections is how many connections the flooding client has.
const FloodConnections = 32

// UpstreamBody is the body of the upstream's response.
var UpstreamBody = `{"order":4711,"state":"shipped","items":[{"sku":"A-100","count":2},{"sku":"B-200","count":1}],"note":"` +
	strings.Repeat("x", 90) + `"}`

// upstreamAnswer is the complete response of the upstream.
func upstreamAnswer() []byte {
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nServer: upstream\r\nDate: Sun, 15 Nov 2026 08:00:00 GMT\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(UpstreamBody), UpstreamBody)
}

// takeRequests returns the number of complete requests without a body at the beginning of the input, and the rest of
// the input.
func takeRequests(text []byte) (requests int, rest []byte, err error) {
	for {
		end := bytes.Index(text, []byte("\r\n\r\n"))
		if end < 0 {
			return requests, text, nil
		}
		if !bytes.HasPrefix(text, []byte("GET ")) {
			return requests, text, fmt.Errorf("a request begins with %.20q: want only GET", text)
		}
		requests++
		text = text[end+4:]
	}
}

// takeResponse returns the status of the response at the beginning of the input, and the length of the response with
// its body. The length is 0 if the response is not complete. It supports only bodies with a Content-Length.
func takeResponse(text []byte) (status, length int, err error) {
	head, _, whole := bytes.Cut(text, []byte("\r\n\r\n"))
	if !whole {
		return 0, 0, nil
	}
	first, fields, _ := bytes.Cut(head, []byte("\r\n"))
	if len(first) < len("HTTP/1.1 200") || !bytes.HasPrefix(first, []byte("HTTP/1.1 ")) {
		return 0, 0, fmt.Errorf("a response begins with %.20q", first)
	}
	if status, err = strconv.Atoi(string(first[9:12])); err != nil {
		return 0, 0, fmt.Errorf("a response begins with %.20q", first)
	}
	for len(fields) > 0 {
		var field []byte
		field, fields, _ = bytes.Cut(fields, []byte("\r\n"))
		name, value, _ := bytes.Cut(field, []byte(":"))
		if !bytes.EqualFold(name, []byte("Content-Length")) {
			continue
		}
		n, err := strconv.Atoi(string(bytes.TrimSpace(value)))
		if err != nil || n < 0 {
			return 0, 0, fmt.Errorf("a response has a %q", field)
		}
		if length = len(head) + 4 + n; length > len(text) {
			return 0, 0, nil
		}
		return status, length, nil
	}
	return 0, 0, errors.New("a response does not say how long it is")
}

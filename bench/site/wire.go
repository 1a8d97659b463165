package site

import (
	"bytes"
	"cmp"
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
func LoadRequests() []string { return eachClient(LoadClients, "GET", "", "") }

// LargeRequests are like LoadRequests, but the upstream responds with LargeBody.
func LargeRequests() []string { return eachClient(LoadClients, "GET", largeQuery, "") }

// ClosingRequests are like LoadRequests, but each closes its connection.
func ClosingRequests() []string {
	return eachClient(LoadClients, "GET", "", "Connection: close\r\n\r\n")
}

// PostRequests returns requests of some clients, each with LargeBody as its body.
func PostRequests() []string {
	const clients = 16 // so that they fit into the caches of the load's core
	return eachClient(clients, "POST", "", fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(LargeBody), LargeBody))
}

// eachClient returns the text of one request of each client. end has its last fields and its body; by default it has
// none.
func eachClient(clients int, method, query, end string) []string {
	texts := make([]string, clients)
	for i := range texts {
		texts[i] = loadRequest(method, fmt.Sprintf("%d%s", 10_000+i, query), fmt.Sprintf("client-%06d", i),
			cmp.Or(end, "\r\n"))
	}
	return texts
}

func loadRequest(method, order, client, end string) string {
	return fmt.Sprintf("%s /api/v1/orders/%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench/1\r\nAccept: application/json\r\n"+
		"X-API-Key: %s\r\n%s", method, order, LoadHost, client, end)
}

// floodRequest is the request of the flooding client.
var floodRequest = []byte(loadRequest("GET", "1", "noisy-client", "\r\n"))

// FloodConnections is how many connections the flooding client has.
const FloodConnections = 32

// UpstreamBody is the body of the upstream's response.
var UpstreamBody = `{"order":4711,"state":"shipped","items":[{"sku":"A-100","count":2},{"sku":"B-200","count":1}],"note":"` +
	strings.Repeat("x", 90) + `"}`

// LargeBody is the body of large responses and requests: 10 kB of JSON.
var LargeBody = `{"note":"` + strings.Repeat("x", 10_000-11) + `"}`

// largeQuery marks requests whose response has LargeBody.
const largeQuery = "?large"

// upstreamAnswer returns the complete response of the upstream with a body.
func upstreamAnswer(body string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nServer: upstream\r\nDate: Sun, 15 Nov 2026 08:00:00 GMT\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// takeRequest removes the first request from the input, with its body. It returns false if the request is not complete.
// large reports whether its response must have LargeBody.
func takeRequest(text []byte) (large, whole bool, rest []byte, err error) {
	head, rest, whole := bytes.Cut(text, []byte("\r\n\r\n"))
	if !whole {
		return false, false, text, nil
	}
	line, fields, _ := bytes.Cut(head, []byte("\r\n"))
	switch {
	case bytes.HasPrefix(line, []byte("GET ")):
	case bytes.HasPrefix(line, []byte("POST ")):
		length, err := contentLength(fields)
		if err != nil || length < 0 {
			return false, false, text, fmt.Errorf("a POST must say how long it is: %w", err)
		}
		if length > len(rest) {
			return false, false, text, nil
		}
		rest = rest[length:]
	default:
		return false, false, text, fmt.Errorf("a request begins with %.20q: want GET or POST", text)
	}
	return bytes.Contains(line, []byte(largeQuery)), true, rest, nil
}

// contentLength returns the value of Content-Length in the fields of a head, or -1 if there is none.
func contentLength(fields []byte) (int, error) {
	for len(fields) > 0 {
		var field []byte
		field, fields, _ = bytes.Cut(fields, []byte("\r\n"))
		name, value, _ := bytes.Cut(field, []byte(":"))
		if !bytes.EqualFold(name, []byte("Content-Length")) {
			continue
		}
		n, err := strconv.Atoi(string(bytes.TrimSpace(value)))
		if err != nil || n < 0 {
			return 0, fmt.Errorf("there is a %q", field)
		}
		return n, nil
	}
	return -1, nil
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
	n, err := contentLength(fields)
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("response: %w", err)
	case n < 0:
		return 0, 0, errors.New("a response does not say how long it is")
	case len(head)+4+n > len(text):
		return 0, 0, nil
	}
	return status, len(head) + 4 + n, nil
}

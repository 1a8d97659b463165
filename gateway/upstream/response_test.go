package upstream

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/gateway/internal/http1"
)

func TestMalformedHeadsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		head string
		want error
	}{
		{"\r\nHTTP/1.1 200 OK\r\n\r\n", errStatusLine},
		{"HTTP/1.1\r\n\r\n", errStatusLine},
		{"HTTP/1.1 \r\n\r\n", errStatusLine},
		{"HTTP/1.1 20\r\n\r\n", errStatusLine},
		{"HTTP/1.1 2000 OK\r\n\r\n", errStatusLine},
		{"HTTP/1.1 2x0 OK\r\n\r\n", errStatusLine},
		{"HTTP/1.1 -20 OK\r\n\r\n", errStatusLine},
		{"HTTP/1.1 +20 OK\r\n\r\n", errStatusLine},
		{"HTTP/1.1 099 OK\r\n\r\n", errStatusLine},
		{"HTTP/1.1 200\tOK\r\n\r\n", errStatusLine},
		{"HTTP/1.1200 OK\r\n\r\n", errStatusLine},
		{"HTTP/1.1 200 O\rK\r\n\r\n", errStatusLine},
		{"HTTP/1.12 200 OK\r\n\r\n", errStatusLine},
		{"HTTPS/1.1 200 OK\r\n\r\n", errStatusLine},
		{"http/1.1 200 OK\r\n\r\n", errStatusLine},
		{"HTTP/2.0 200 OK\r\n\r\n", errVersion},
		{"HTTP/0.9 200 OK\r\n\r\n", errVersion},
		{"HTTP/1.x 200 OK\r\n\r\n", errVersion},
		{"HTTP/1.1 200 OK\r\nA b\r\n\r\n", errFieldName},
		{"HTTP/1.1 200 OK\r\nAb\r\n\r\n", errNoColon},
		{"HTTP/1.1 200 OK\r\n: b\r\n\r\n", errFieldName},
		{"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", errFieldName},
		{"HTTP/1.1 200 OK\r\nA\x00: b\r\n\r\n", errFieldName},
		{"HTTP/1.1 200 OK\r\nÄ: b\r\n\r\n", errFieldName},
		{"HTTP/1.1 200 OK\r\nA: b\x00\r\n\r\n", errFieldValue},
		{"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", errFieldValue},
		{"HTTP/1.1 200 OK\r\nA: b\x7f\r\n\r\n", errFieldValue},
		{"HTTP/1.1 200 OK\r\n A: b\r\n\r\n", errFolded},
		{"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", errFolded},
		{"HTTP/1.1 200 OK\r\nA: b\r\n\tc\r\n\r\n", errFolded},
		{"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n", errLength},
		{"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", errLength},
		{"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", errLength},
		{"HTTP/1.1 200 OK\r\nContent-Length: 0x1\r\n\r\n", errLength},
		{"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n", errLength},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n", errLength},
		{"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\n", errLength},
		{"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n", errLength},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", errLengths},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 05\r\n\r\n", errLengths},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", errBoth},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\ncontent-length: 5\r\n\r\n", errBoth},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", errEncoding},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", errEncoding},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n", errEncoding},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: \r\n\r\n", errEncoding},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", errEncoding},
		{"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", errEncoding},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X, content-length\r\n\r\n", errTrailerName},
	} {
		var h responseHead
		if err := h.parse([]byte(tt.head)); !errors.Is(err, tt.want) {
			t.Errorf("%q: got %v, want %v", tt.head, err, tt.want)
		}
	}
}

func TestHeadsAreReadAsTheyAreMeant(t *testing.T) {
	for _, tt := range []struct {
		head string
		want responseHead
	}{
		{"HTTP/1.1 200 OK\r\n\r\n", responseHead{status: 200, length: -1}},
		{"HTTP/1.1 200\r\n\r\n", responseHead{status: 200, length: -1}},
		{"HTTP/1.1 200 \r\n\r\n", responseHead{status: 200, length: -1}},
		{"HTTP/1.1   999 odd\xe4 reason\r\n\r\n", responseHead{status: 999, length: -1}},
		{"HTTP/1.1 200 OK\n\n", responseHead{status: 200, length: -1}},
		{"HTTP/1.9 200 OK\r\n\r\n", responseHead{status: 200, length: -1}},
		{"HTTP/1.0 200 OK\r\n\r\n", responseHead{status: 200, length: -1, ends: true}},
		{"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n\r\n", responseHead{status: 200, length: -1}},
		{"HTTP/1.1 200 OK\r\nContent-length:5\r\n\r\n", responseHead{status: 200, length: 5}},
		{"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n", responseHead{status: 200, length: 1<<63 - 1}},
		{"HTTP/1.1 200 OK\r\nContent-Length: \t5 \r\nContent-Length: 5\r\n\r\n", responseHead{status: 200, length: 5}},
		{"HTTP/1.1 200 OK\r\ntransfer-encoding: CHUNKED\r\n\r\n", responseHead{status: 200, length: -1, chunked: true}},
		{"HTTP/1.1 200 OK\r\nKeep-Alive: max=3, Timeout = 7\r\n\r\n", responseHead{status: 200, length: -1, keep: 7 * time.Second}},
		{"HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream;x\r\n\r\n", responseHead{status: 200, length: -1, typed: true, stream: true}},
		{"HTTP/1.1 200 OK\r\nContent-Type: x/y\r\nConnection: content-type, close\r\n\r\n", responseHead{status: 200, length: -1, ends: true}},
	} {
		var h responseHead
		if err := h.parse([]byte(tt.head)); err != nil {
			t.Errorf("%q: %v", tt.head, err)
			continue
		}
		h.fields, h.trailer, h.named = nil, nil, nil
		if h.status != tt.want.status || h.length != tt.want.length || h.chunked != tt.want.chunked || h.ends != tt.want.ends ||
			h.keep != tt.want.keep || h.stream != tt.want.stream || h.typed != tt.want.typed {
			t.Errorf("%q:\n got %+v\nwant %+v", tt.head, h, tt.want)
		}
	}
}

func TestTheEndOfAHeadIsFoundHoweverItArrives(t *testing.T) {
	for _, head := range []string{
		"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", "HTTP/1.1 200 OK\nA: b\n\n", "HTTP/1.1 200 OK\nA: b\n\r\n", "A\r\n\r\n", "A\r\nB\r\n\n",
	} {
		for size := 1; size <= len(head); size++ {
			text := []byte(head + "\r\n\r\nrest")
			from, got := 0, 0
			for n := 0; got == 0 && n < len(text); {
				n = min(n+size, len(text))
				got = http1.HeadEnd(text[:n], &from)
			}
			if got != len(head) {
				t.Errorf("%q by %d bytes: got %d, want %d", head, size, got, len(head))
			}
		}
	}
}

// dechunk takes apart a body that arrives in pieces of a size.
func dechunk(body string, size int) (data, rest string, err error) {
	var c chunks
	var out bytes.Buffer
	var b []byte
	for {
		piece, used, err := c.next(b)
		out.Write(piece)
		b = b[used:]
		if err != nil {
			return out.String(), string(b) + body, err
		}
		if len(piece) > 0 {
			continue
		}
		if body == "" {
			return out.String(), string(b), io.ErrUnexpectedEOF
		}
		n := min(size, len(body))
		b = append(slices.Clone(b), body[:n]...)
		body = body[n:]
	}
}

func TestChunksAreTakenApart(t *testing.T) {
	for _, tt := range []struct {
		body, data, rest string
		err              error
	}{
		{"0\r\n\r\n", "", "\r\n", io.EOF},
		{"3\r\nabc\r\n0\r\n\r\n", "abc", "\r\n", io.EOF},
		{"3;x=y\r\nabc\r\n00A \t\r\n0123456789\r\n000\r\nX: y\r\n\r\n", "abc0123456789", "X: y\r\n\r\n", io.EOF},
		{"3\r\nabcd\r\n0\r\n\r\n", "abc", "", errChunkEnd},
		{"3\r\nabc\n0\r\n\r\n", "abc", "", errChunkEnd},
		{"3\nabc\r\n0\r\n\r\n", "", "", errChunkLine},
		{"3\r \r\nabc\r\n0\r\n\r\n", "", "", errChunkLine},
		{"3;a\rb\r\nabc\r\n0\r\n\r\n", "", "", errChunkLine},
		{"\r\n", "", "", errChunkSize},
		{";x\r\n", "", "", errChunkSize},
		{"-1\r\n", "", "", errChunkSize},
		{"+1\r\n", "", "", errChunkSize},
		{"0x1\r\n", "", "", errChunkSize},
		{" 1\r\n", "", "", errChunkSize},
		{"1 ;x\r\n", "", "", errChunkSize},
		{"1g\r\n", "", "", errChunkSize},
		{"FFFFFFFFFFFFFFFF\r\nabc", "", "", errChunkSize},
		{"10000000000000000\r\nabc", "", "", errChunkSize},
		{"10000000000000005\r\nabcde\r\n0\r\n\r\n", "", "", errChunkSize},
		{"00000000000000003\r\nabc\r\n0\r\n\r\n", "", "", errChunkSize},
		{"3\r\nab", "ab", "", io.ErrUnexpectedEOF},
		{"3\r\nabc\r\n", "abc", "", io.ErrUnexpectedEOF},
		{"1;" + strings.Repeat("x", 5000) + "\r\na\r\n", "", "", errChunkLine},
		{strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\na\r\n", 30), strings.Repeat("a", 16), "", errChunkWaste},
		{strings.Repeat("1\r\na\r\n", 30_000) + "0\r\n\r\n", strings.Repeat("a", 30_000), "\r\n", io.EOF},
	} {
		for _, size := range []int{1, 2, 3, 7, len(tt.body)} {
			data, rest, err := dechunk(tt.body, size)
			if data != tt.data || !errors.Is(err, tt.err) || errors.Is(err, io.EOF) && rest != tt.rest {
				t.Errorf("%.60q by %d bytes:\n got %.40q, rest %.40q, %v\nwant %.40q, rest %.40q, %v", tt.body, size, data, rest, err, tt.data, tt.rest, tt.err)
			}
		}
	}
}

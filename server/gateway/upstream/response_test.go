package upstream

import (
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/http1"
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
		{"HTTP/1.1 200 OK\r\nA b\r\n\r\n", http1.ErrFieldName},
		{"HTTP/1.1 200 OK\r\nAb\r\n\r\n", http1.ErrNoColon},
		{"HTTP/1.1 200 OK\r\n: b\r\n\r\n", http1.ErrFieldName},
		{"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", http1.ErrFieldName},
		{"HTTP/1.1 200 OK\r\nA\x00: b\r\n\r\n", http1.ErrFieldName},
		{"HTTP/1.1 200 OK\r\nÄ: b\r\n\r\n", http1.ErrFieldName},
		{"HTTP/1.1 200 OK\r\nA: b\x00\r\n\r\n", http1.ErrFieldValue},
		{"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", http1.ErrFieldValue},
		{"HTTP/1.1 200 OK\r\nA: b\x7f\r\n\r\n", http1.ErrFieldValue},
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
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", errLengthAndEncoding},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\ncontent-length: 5\r\n\r\n", errLengthAndEncoding},
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

func TestResponseHeadsAreParsed(t *testing.T) {
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
		{"HTTP/1.0 200 OK\r\n\r\n", responseHead{status: 200, length: -1, closesConn: true}},
		{"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n\r\n", responseHead{status: 200, length: -1}},
		{"HTTP/1.1 200 OK\r\nContent-length:5\r\n\r\n", responseHead{status: 200, length: 5}},
		{"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n", responseHead{status: 200, length: 1<<63 - 1}},
		{"HTTP/1.1 200 OK\r\nContent-Length: \t5 \r\nContent-Length: 5\r\n\r\n", responseHead{status: 200, length: 5}},
		{"HTTP/1.1 200 OK\r\ntransfer-encoding: CHUNKED\r\n\r\n", responseHead{status: 200, length: -1, chunked: true}},
		{"HTTP/1.1 200 OK\r\nKeep-Alive: max=3, Timeout = 7\r\n\r\n", responseHead{status: 200, length: -1, keepAlive: 7 * time.Second}},
		{"HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream;x\r\n\r\n", responseHead{status: 200, length: -1, hasContentType: true, eventStream: true}},
		{"HTTP/1.1 200 OK\r\nContent-Type: x/y\r\nConnection: content-type, close\r\n\r\n", responseHead{status: 200, length: -1, closesConn: true}},
	} {
		var h responseHead
		if err := h.parse([]byte(tt.head)); err != nil {
			t.Errorf("%q: %v", tt.head, err)
			continue
		}
		h.fields, h.announcedTrailers, h.connectionNames = nil, nil, nil
		if h.status != tt.want.status || h.length != tt.want.length || h.chunked != tt.want.chunked || h.closesConn != tt.want.closesConn ||
			h.keepAlive != tt.want.keepAlive || h.eventStream != tt.want.eventStream || h.hasContentType != tt.want.hasContentType {
			t.Errorf("%q:\n got %+v\nwant %+v", tt.head, h, tt.want)
		}
	}
}

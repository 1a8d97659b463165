package h2

import (
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// window is the payload of a WINDOW_UPDATE.
func window(n uint32) string { return string(appendWindowUpdate(nil, 1, n)[frameHeaderSize:]) }

// setting is the payload of SETTINGS.
func setting(id http2.SettingID, value uint32) string {
	return string(appendSettings(nil, http2.Setting{ID: id, Val: value})[frameHeaderSize:])
}

// Errors of frames end the connection or reset the stream, with the codes of RFC 9113. Stream 1 has ended, stream 3 is
// open, and stream 5 is reset by the server.
func TestInvalidFrames(t *testing.T) {
	const none = http2.ErrCode(1 << 31)
	for name, tt := range map[string]struct {
		send   func(c *client)
		conn   http2.ErrCode // of GOAWAY; none if the connection stays
		stream uint32        // that is reset; 0 for none
		code   http2.ErrCode
	}{
		"a frame that is too large": {conn: http2.ErrCodeFrameSize, send: func(c *client) {
			c.write(appendFrameHeader(nil, http2.FrameData, 0, 3, maxFrameSize+1))
		}},
		"DATA on the connection": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameData, 0, 0, "x")
		}},
		"DATA before HEADERS": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameData, 0, 7, "x")
		}},
		"DATA on an even stream": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameData, 0, 2, "x")
		}},
		"DATA with much padding": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameData, http2.FlagDataPadded, 3, "\x05abcd")
		}},
		"DATA without its padding": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameData, http2.FlagDataPadded, 3, "")
		}},
		"DATA after the end": {conn: none, stream: 1, code: http2.ErrCodeStreamClosed, send: func(c *client) {
			c.raw(http2.FrameData, 0, 1, "x")
		}},
		"DATA after the end of the body": {conn: none, stream: 3, code: http2.ErrCodeStreamClosed, send: func(c *client) {
			c.raw(http2.FrameData, http2.FlagDataEndStream, 3, "x")
			c.raw(http2.FrameData, 0, 3, "x")
		}},
		"DATA after a reset": {conn: none, send: func(c *client) { c.raw(http2.FrameData, 0, 5, "x") }},
		"HEADERS on the connection": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 0, "\x82")
		}},
		"HEADERS on an even stream": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 8, "\x82")
		}},
		"HEADERS after the end": {conn: http2.ErrCodeStreamClosed, send: func(c *client) {
			c.headers(1, true, getFields()...)
		}},
		"HEADERS with much padding": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameHeaders, http2.FlagHeadersPadded|http2.FlagHeadersEndHeaders, 7, "\x09\x82")
		}},
		"HEADERS without its priority": {conn: http2.ErrCodeFrameSize, send: func(c *client) {
			c.raw(http2.FrameHeaders, http2.FlagHeadersPriority|http2.FlagHeadersEndHeaders, 7, "\x00\x00")
		}},
		"HEADERS that depend on themselves": {conn: none, stream: 7, code: http2.ErrCodeProtocol, send: func(c *client) {
			block := "\x00\x00\x00\x07\x00" + string(c.encode(getFields()...))
			c.raw(http2.FrameHeaders, http2.FlagHeadersPriority|http2.FlagHeadersEndHeaders, 7, block)
		}},
		"HEADERS that are not compressed well": {conn: http2.ErrCodeCompression, send: func(c *client) {
			c.raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 7, "\xff\xff\xff")
		}},
		"HEADERS that break off": {conn: http2.ErrCodeCompression, send: func(c *client) {
			c.raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 7, "\x00\x0aabc")
		}},
		"trailers without the end": {conn: none, stream: 3, code: http2.ErrCodeProtocol, send: func(c *client) {
			c.headers(3, false, "x-a", "b")
		}},
		"trailers with a pseudo field": {conn: none, stream: 3, code: http2.ErrCodeProtocol, send: func(c *client) {
			c.headers(3, true, ":path", "/")
		}},
		"trailers with a capital": {conn: none, stream: 3, code: http2.ErrCodeProtocol, send: func(c *client) {
			c.headers(3, true, "X-A", "b")
		}},
		"trailers after the end of the body": {conn: none, stream: 3, code: http2.ErrCodeStreamClosed, send: func(c *client) {
			c.data(3, true, "x")
			c.headers(3, true, "x-a", "b")
		}},
		"CONTINUATION without HEADERS": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameContinuation, 0, 3, "x")
		}},
		"CONTINUATION of another stream": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameHeaders, 0, 7, "\x82")
			c.raw(http2.FrameContinuation, 0, 9, "\x82")
		}},
		"PING within HEADERS": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameHeaders, 0, 7, "\x82")
			c.raw(http2.FramePing, 0, 0, "12345678")
		}},
		"an unknown frame within HEADERS": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameHeaders, 0, 7, "\x82")
			c.raw(99, 0, 7, "x")
		}},
		"an unknown frame": {conn: none, send: func(c *client) { c.raw(99, 0xff, 3, "x") }},
		"PRIORITY on the connection": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FramePriority, 0, 0, "12345")
		}},
		"PRIORITY of another size": {conn: none, stream: 3, code: http2.ErrCodeFrameSize, send: func(c *client) {
			c.raw(http2.FramePriority, 0, 3, "1234")
		}},
		"PRIORITY of itself": {conn: none, stream: 3, code: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FramePriority, 0, 3, "\x00\x00\x00\x03\x00")
		}},
		"PRIORITY": {conn: none, send: func(c *client) {
			c.raw(http2.FramePriority, 0, 9, "\x00\x00\x00\x03\x00")
		}},
		"RST_STREAM on the connection": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameRSTStream, 0, 0, "1234")
		}},
		"RST_STREAM before HEADERS": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameRSTStream, 0, 7, "1234")
		}},
		"RST_STREAM of another size": {conn: http2.ErrCodeFrameSize, send: func(c *client) {
			c.raw(http2.FrameRSTStream, 0, 3, "123")
		}},
		"RST_STREAM after the end": {conn: none, send: func(c *client) { c.raw(http2.FrameRSTStream, 0, 1, "1234") }},
		"SETTINGS on a stream": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameSettings, 0, 3, "")
		}},
		"SETTINGS of a wrong size": {conn: http2.ErrCodeFrameSize, send: func(c *client) {
			c.raw(http2.FrameSettings, 0, 0, "12345")
		}},
		"an acknowledgement with settings": {conn: http2.ErrCodeFrameSize, send: func(c *client) {
			c.raw(http2.FrameSettings, http2.FlagSettingsAck, 0, "123456")
		}},
		"an acknowledgement of nothing": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameSettings, http2.FlagSettingsAck, 0, "")
		}},
		"too many settings": {conn: http2.ErrCodeEnhanceYourCalm, send: func(c *client) {
			c.raw(http2.FrameSettings, 0, 0, strings.Repeat(setting(99, 1), maxSettings+1))
		}},
		"ENABLE_PUSH 2": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameSettings, 0, 0, setting(http2.SettingEnablePush, 2))
		}},
		"a window that is too large": {conn: http2.ErrCodeFlowControl, send: func(c *client) {
			c.raw(http2.FrameSettings, 0, 0, setting(http2.SettingInitialWindowSize, 1<<31))
		}},
		"a window that overflows by settings": {conn: http2.ErrCodeFlowControl, send: func(c *client) {
			c.raw(http2.FrameWindowUpdate, 0, 3, window(maxWindow-firstWindow))
			c.raw(http2.FrameSettings, 0, 0, setting(http2.SettingInitialWindowSize, firstWindow+1))
		}},
		"small frames": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameSettings, 0, 0, setting(http2.SettingMaxFrameSize, 1<<14-1))
		}},
		"large frames": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameSettings, 0, 0, setting(http2.SettingMaxFrameSize, 1<<24))
		}},
		"PUSH_PROMISE": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FramePushPromise, 0, 3, "1234")
		}},
		"PING on a stream": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FramePing, 0, 3, "12345678")
		}},
		"PING of another size": {conn: http2.ErrCodeFrameSize, send: func(c *client) {
			c.raw(http2.FramePing, 0, 0, "1234567")
		}},
		"GOAWAY on a stream": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameGoAway, 0, 3, "12345678")
		}},
		"GOAWAY that is too short": {conn: http2.ErrCodeFrameSize, send: func(c *client) {
			c.raw(http2.FrameGoAway, 0, 0, "1234567")
		}},
		"WINDOW_UPDATE before HEADERS": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameWindowUpdate, 0, 7, window(1))
		}},
		"WINDOW_UPDATE of another size": {conn: http2.ErrCodeFrameSize, send: func(c *client) {
			c.raw(http2.FrameWindowUpdate, 0, 3, "123")
		}},
		"WINDOW_UPDATE of 0": {conn: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameWindowUpdate, 0, 0, window(0))
		}},
		"WINDOW_UPDATE of 0 for a stream": {conn: none, stream: 3, code: http2.ErrCodeProtocol, send: func(c *client) {
			c.raw(http2.FrameWindowUpdate, 0, 3, window(0))
		}},
		"WINDOW_UPDATE that overflows": {conn: http2.ErrCodeFlowControl, send: func(c *client) {
			c.raw(http2.FrameWindowUpdate, 0, 0, window(maxWindow))
		}},
		"WINDOW_UPDATE beyond a stream": {conn: none, stream: 3, code: http2.ErrCodeFlowControl, send: func(c *client) {
			c.raw(http2.FrameWindowUpdate, 0, 3, window(maxWindow))
		}},
		"WINDOW_UPDATE after the end": {conn: none, send: func(c *client) {
			c.raw(http2.FrameWindowUpdate, 0, 1, window(1))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			s := newServer(t, func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/held" {
					<-release
				}
			})
			c := connect(t, s)
			t.Cleanup(func() { close(release) }) // before the connection is awaited
			c.headers(1, true, getFields()...)
			c.ok(1)
			c.headers(3, false, ":method", "POST", ":scheme", "http", ":path", "/held", ":authority", "a.example")
			c.headers(5, true, getFields("Capital", "x")...)
			c.reset(5, http2.ErrCodeProtocol)
			tt.send(c)
			if tt.conn != none {
				g, ok := c.read().(*http2.GoAwayFrame)
				if !ok || g.ErrCode != tt.conn || g.LastStreamID != 5 {
					t.Fatalf("got %v, want GOAWAY with %v after stream 5", g, tt.conn)
				}
				return
			}
			if tt.stream != 0 {
				c.reset(tt.stream, tt.code)
			}
			c.alive()
		})
	}
}

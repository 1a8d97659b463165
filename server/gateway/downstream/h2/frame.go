package h2

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/net/http2"
)

const (
	frameHeaderSize = 9
	// maxFrameSize is the maximum payload of a frame, in both directions. It is the default of HTTP/2.
	maxFrameSize = 16 << 10
	maxWindow    = 1<<31 - 1
	maxStreamID  = 1<<31 - 1
	firstWindow  = 1<<16 - 1 // initial window of streams and connections for sending, until the client changes it
)

// A frame is a frame that was read. Its payload is valid until the next read.
type frame struct {
	kind    http2.FrameType
	flags   http2.Flags
	stream  uint32
	payload []byte
}

// parseHeader parses the header of a frame. It returns the length of the payload.
func (f *frame) parseHeader(b []byte) (length int) {
	f.kind, f.flags = http2.FrameType(b[3]), http2.Flags(b[4])
	f.stream = binary.BigEndian.Uint32(b[5:]) & maxStreamID
	return int(b[0])<<16 | int(b[1])<<8 | int(b[2])
}

func (f *frame) has(flag http2.Flags) bool { return f.flags&flag != 0 }

// unpad removes the padding of a DATA or HEADERS frame. It returns false if there is more padding than payload.
func (f *frame) unpad() bool {
	const flag = http2.FlagDataPadded // HEADERS has the same flag
	if !f.has(flag) {
		return true
	}
	if len(f.payload) == 0 {
		return false
	}
	padding := int(f.payload[0])
	f.payload = f.payload[1:]
	if padding > len(f.payload) {
		return false
	}
	f.payload = f.payload[:len(f.payload)-padding]
	return true
}

// A connError is a violation of the protocol by the client. It ends the connection.
type connError struct {
	code   http2.ErrCode
	reason string
}

func (e *connError) Error() string { return fmt.Sprintf("h2: %v: %s", e.code, e.reason) }

// appendFrameHeader appends the header of a frame.
func appendFrameHeader(dst []byte, kind http2.FrameType, flags http2.Flags, stream uint32, length int) []byte {
	return append(dst, byte(length>>16), byte(length>>8), byte(length), byte(kind), byte(flags),
		byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

func appendData(dst []byte, stream uint32, data []byte, end bool) []byte {
	var flags http2.Flags
	if end {
		flags = http2.FlagDataEndStream
	}
	return append(appendFrameHeader(dst, http2.FrameData, flags, stream, len(data)), data...)
}

// appendBlock appends a header block as a HEADERS frame, with CONTINUATION frames if it is large.
func appendBlock(dst []byte, stream uint32, block []byte, end bool) []byte {
	kind, flags := http2.FrameHeaders, http2.Flags(0)
	if end {
		flags = http2.FlagHeadersEndStream
	}
	for {
		part := block[:min(len(block), maxFrameSize)]
		if block = block[len(part):]; len(block) == 0 {
			flags |= http2.FlagHeadersEndHeaders // CONTINUATION has the same flag
		}
		dst = append(appendFrameHeader(dst, kind, flags, stream, len(part)), part...)
		if len(block) == 0 {
			return dst
		}
		kind, flags = http2.FrameContinuation, 0
	}
}

func appendReset(dst []byte, stream uint32, code http2.ErrCode) []byte {
	dst = appendFrameHeader(dst, http2.FrameRSTStream, 0, stream, 4)
	return binary.BigEndian.AppendUint32(dst, uint32(code))
}

func appendWindowUpdate(dst []byte, stream, n uint32) []byte {
	dst = appendFrameHeader(dst, http2.FrameWindowUpdate, 0, stream, 4)
	return binary.BigEndian.AppendUint32(dst, n)
}

func appendPing(dst []byte, flags http2.Flags, data [8]byte) []byte {
	return append(appendFrameHeader(dst, http2.FramePing, flags, 0, len(data)), data[:]...)
}

func appendGoAway(dst []byte, last uint32, code http2.ErrCode) []byte {
	dst = appendFrameHeader(dst, http2.FrameGoAway, 0, 0, 8)
	dst = binary.BigEndian.AppendUint32(dst, last)
	return binary.BigEndian.AppendUint32(dst, uint32(code))
}

// settingSize is the size of a setting in a SETTINGS frame.
const settingSize = 6

func appendSettings(dst []byte, settings ...http2.Setting) []byte {
	dst = appendFrameHeader(dst, http2.FrameSettings, 0, 0, settingSize*len(settings))
	for _, s := range settings {
		dst = binary.BigEndian.AppendUint16(dst, uint16(s.ID))
		dst = binary.BigEndian.AppendUint32(dst, s.Val)
	}
	return dst
}

func appendSettingsAck(dst []byte) []byte {
	return appendFrameHeader(dst, http2.FrameSettings, http2.FlagSettingsAck, 0, 0)
}

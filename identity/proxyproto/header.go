package proxyproto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// ErrHeader is wrapped by all errors about a header.
var ErrHeader = errors.New("bad PROXY header")

// A Header is the header of a connection.
type Header struct {
	// Source is the client's address, and Destination the address to which the client has connected. They are zero if the
	// header has no addresses.
	Source, Destination netip.AddrPort
}

const (
	signature1 = "PROXY "
	signature2 = "\r\n\r\n\x00\r\nQUIT\n"
	// maxLine is the maximum length of a version 1 header, including its end.
	maxLine = 107
	// fixedLength2 is the length of the fixed part of a version 2 header.
	fixedLength2 = len(signature2) + 4
)

// Parse parses the header at the beginning of data and returns its length. If data is valid so far but incomplete, it
// returns 0 and no error.
func Parse(data []byte) (h Header, length int, err error) {
	switch {
	case mayBeginWith(data, signature1):
		return parse1(data)
	case mayBeginWith(data, signature2):
		return parse2(data)
	default:
		return Header{}, 0, fmt.Errorf("%w: begins with %q: want %q or %q",
			ErrHeader, data[:min(len(data), 12)], signature1, signature2)
	}
}

// mayBeginWith reports whether data begins with a signature or, if data is shorter, with the beginning of it.
func mayBeginWith(data []byte, signature string) bool {
	n := min(len(data), len(signature))
	return string(data[:n]) == signature[:n]
}

// parse1 parses a line such as "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443".
func parse1(data []byte) (Header, int, error) {
	end := bytes.Index(data[:min(len(data), maxLine)], []byte("\r\n"))
	if end < 0 {
		if len(data) >= maxLine {
			return Header{}, 0, fmt.Errorf("%w: no end within %d bytes", ErrHeader, maxLine)
		}
		return Header{}, 0, nil
	}
	line, length := string(data[:end]), end+2
	fields := strings.Split(line, " ")
	if len(fields) > 1 && fields[1] == "UNKNOWN" {
		return Header{}, length, nil
	}
	if len(fields) != 6 || fields[1] != "TCP4" && fields[1] != "TCP6" {
		return Header{}, 0, fmt.Errorf("%w: %q: want PROXY, TCP4, TCP6 or UNKNOWN, two addresses and two ports",
			ErrHeader, line)
	}
	var h Header
	for i, dst := range [...]*netip.AddrPort{&h.Source, &h.Destination} {
		addr, err := netip.ParseAddr(fields[2+i])
		if err != nil || addr.Is4() != (fields[1] == "TCP4") || addr.Zone() != "" {
			return Header{}, 0, fmt.Errorf("%w: %q: want an address of %s", ErrHeader, fields[2+i], fields[1])
		}
		port, err := strconv.ParseUint(fields[4+i], 10, 16)
		if err != nil || len(fields[4+i]) > 1 && fields[4+i][0] == '0' {
			return Header{}, 0, fmt.Errorf("%w: %q: want a port, 0 to 65535", ErrHeader, fields[4+i])
		}
		*dst = netip.AddrPortFrom(addr, uint16(port))
	}
	return h, length, nil
}

// Values of the fields in a header of version 2.
const (
	version2   = 0x2
	cmdLocal   = 0x0
	cmdProxy   = 0x1
	familyIPv4 = 0x1
	familyIPv6 = 0x2
	familyUnix = 0x3
	maxProto   = 0x2 // 0 unspecified, 1 stream, 2 datagram
)

// parse2 parses a binary header.
func parse2(data []byte) (Header, int, error) {
	if len(data) < fixedLength2 {
		return Header{}, 0, nil
	}
	version, command := data[12]>>4, data[12]&0xf
	family, proto := data[13]>>4, data[13]&0xf
	rest := int(binary.BigEndian.Uint16(data[14:]))
	switch {
	case version != version2:
		return Header{}, 0, fmt.Errorf("%w: version %d: want 2", ErrHeader, version)
	case command > cmdProxy:
		return Header{}, 0, fmt.Errorf("%w: command %d: want 0 (LOCAL) or 1 (PROXY)", ErrHeader, command)
	case command == cmdProxy && (family > familyUnix || proto > maxProto):
		return Header{}, 0, fmt.Errorf("%w: family %#x: want one of IPv4, IPv6 or Unix", ErrHeader, data[13])
	case len(data) < fixedLength2+rest:
		return Header{}, 0, nil
	}
	length := fixedLength2 + rest
	if command == cmdLocal {
		return Header{}, length, nil
	}
	var size, pairSize int // the length of an address, and of both addresses with their ports
	switch family {
	case familyIPv4:
		size, pairSize = 4, 12
	case familyIPv6:
		size, pairSize = 16, 36
	case familyUnix:
		pairSize = 216
	}
	if rest < pairSize {
		return Header{}, 0, fmt.Errorf("%w: %d bytes of addresses: want at least %d", ErrHeader, rest, pairSize)
	}
	if size == 0 || proto == 0 {
		return Header{}, length, nil
	}
	b := data[fixedLength2:]
	source, _ := netip.AddrFromSlice(b[:size])
	destination, _ := netip.AddrFromSlice(b[size : 2*size])
	return Header{
		Source:      netip.AddrPortFrom(source, binary.BigEndian.Uint16(b[2*size:])),
		Destination: netip.AddrPortFrom(destination, binary.BigEndian.Uint16(b[2*size+2:])),
	}, length, nil
}

package proxyproto

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// version2Header returns a header with what follows its fixed part.
func version2Header(command, family byte, rest string) string {
	return signature2 + string([]byte{command, family}) + string(binary.BigEndian.AppendUint16(nil, uint16(len(rest)))) + rest
}

const (
	addresses4 = "\xcb\x00\x71\x09\xc0\x00\x02\x01\x12\x67\x01\xbb"
	addresses6 = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" +
		"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02" + "\x12\x67\x01\xbb"
	tlvs = "\x03\x00\x04\x01\x02\x03\x04" + "\xea\x00\x05vpce-" // a checksum, and what AWS adds
)

var headers = []struct {
	name, data   string
	source, dest string // empty if the header names none
	bad          bool
}{
	{"TCP4", "PROXY TCP4 203.0.113.9 192.0.2.1 4711 443\r\n", "203.0.113.9:4711", "192.0.2.1:443", false},
	{"TCP6", "PROXY TCP6 2001:db8::1 2001:db8::2 4711 443\r\n", "[2001:db8::1]:4711", "[2001:db8::2]:443", false},
	{"mapped", "PROXY TCP6 ::ffff:203.0.113.9 ::ffff:192.0.2.1 4711 443\r\n", "[::ffff:203.0.113.9]:4711", "[::ffff:192.0.2.1]:443", false},
	{"the longest", "PROXY TCP6 ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", "", "", true},
	{"UNKNOWN", "PROXY UNKNOWN\r\n", "", "", false},
	{"UNKNOWN and more", "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", "", "", false},
	{"ports of 0", "PROXY TCP4 203.0.113.9 192.0.2.1 0 0\r\n", "203.0.113.9:0", "192.0.2.1:0", false},
	{"IPv6 as TCP4", "PROXY TCP4 2001:db8::1 192.0.2.1 4711 443\r\n", "", "", true},
	{"IPv4 as TCP6", "PROXY TCP6 203.0.113.9 192.0.2.1 4711 443\r\n", "", "", true},
	{"a zone", "PROXY TCP6 fe80::1%eth0 fe80::2 4711 443\r\n", "", "", true},
	{"leading zeros", "PROXY TCP4 203.0.113.009 192.0.2.1 4711 443\r\n", "", "", true},
	{"a port too large", "PROXY TCP4 203.0.113.9 192.0.2.1 65536 443\r\n", "", "", true},
	{"a port with a zero before", "PROXY TCP4 203.0.113.9 192.0.2.1 080 443\r\n", "", "", true},
	{"a port with a sign", "PROXY TCP4 203.0.113.9 192.0.2.1 +80 443\r\n", "", "", true},
	{"two spaces", "PROXY TCP4  203.0.113.9 192.0.2.1 4711 443\r\n", "", "", true},
	{"a space at the end", "PROXY TCP4 203.0.113.9 192.0.2.1 4711 443 \r\n", "", "", true},
	{"too few", "PROXY TCP4 203.0.113.9 192.0.2.1 4711\r\n", "", "", true},
	{"nothing", "PROXY \r\n", "", "", true},
	{"UDP4", "PROXY UDP4 203.0.113.9 192.0.2.1 4711 443\r\n", "", "", true},
	{"lower case", "proxy TCP4 203.0.113.9 192.0.2.1 4711 443\r\n", "", "", true},
	{"a newline alone", "PROXY TCP4 203.0.113.9 192.0.2.1 4711 443\n" + strings.Repeat("x", 107), "", "", true},
	{"no end", "PROXY UNKNOWN " + strings.Repeat("x", 107), "", "", true},
	{"HTTP", "GET / HTTP/1.1\r\n\r\n", "", "", true},
	{"TLS", "\x16\x03\x01\x02\x00", "", "", true},

	{"2 IPv4", version2Header(0x21, 0x11, addresses4), "203.0.113.9:4711", "192.0.2.1:443", false},
	{"2 IPv6", version2Header(0x21, 0x21, addresses6), "[2001:db8::1]:4711", "[2001:db8::2]:443", false},
	{"2 datagrams", version2Header(0x21, 0x12, addresses4), "203.0.113.9:4711", "192.0.2.1:443", false},
	{"2 with TLVs", version2Header(0x21, 0x11, addresses4+tlvs), "203.0.113.9:4711", "192.0.2.1:443", false},
	{"2 with TLVs that are none", version2Header(0x21, 0x21, addresses6+"\xff\xff\xff"), "[2001:db8::1]:4711", "[2001:db8::2]:443", false},
	{"2 LOCAL", version2Header(0x20, 0x00, ""), "", "", false},
	{"2 LOCAL with addresses", version2Header(0x20, 0x11, addresses4), "", "", false},
	{"2 LOCAL of an unknown family", version2Header(0x20, 0xff, "x"), "", "", false},
	{"2 unspecified", version2Header(0x21, 0x00, ""), "", "", false},
	{"2 unspecified protocol", version2Header(0x21, 0x10, addresses4), "", "", false},
	{"2 Unix", version2Header(0x21, 0x31, strings.Repeat("x", 216)), "", "", false},
	{"2 Unix, short", version2Header(0x21, 0x31, strings.Repeat("x", 215)), "", "", true},
	{"2 IPv4, short", version2Header(0x21, 0x11, addresses4[1:]), "", "", true},
	{"2 IPv6, short", version2Header(0x21, 0x21, addresses6[1:]), "", "", true},
	{"2 IPv6 with those of IPv4", version2Header(0x21, 0x21, addresses4), "", "", true},
	{"2 version 1", version2Header(0x11, 0x11, addresses4), "", "", true},
	{"2 version 3", version2Header(0x31, 0x11, addresses4), "", "", true},
	{"2 an unknown command", version2Header(0x22, 0x11, addresses4), "", "", true},
	{"2 an unknown family", version2Header(0x21, 0x41, addresses4), "", "", true},
	{"2 an unknown protocol", version2Header(0x21, 0x13, addresses4), "", "", true},
	{"2 a wrong signature", strings.Replace(version2Header(0x21, 0x11, addresses4), "QUIT", "QUIT"[:3]+"U", 1), "", "", true},
}

func TestParse(t *testing.T) {
	text := func(a netip.AddrPort) string {
		if !a.IsValid() {
			return ""
		}
		return a.String()
	}
	for _, tt := range headers {
		t.Run(tt.name, func(t *testing.T) {
			h, length, err := Parse([]byte(tt.data + "GET / HTTP/1.1"))
			if tt.bad {
				if !errors.Is(err, ErrHeader) || length != 0 || h != (Header{}) {
					t.Fatalf("Parse = %v, %d, %v, want an error", h, length, err)
				}
				return
			}
			if err != nil || length != len(tt.data) || text(h.Source) != tt.source || text(h.Destination) != tt.dest {
				t.Fatalf("Parse = %v, %d, %v, want %s, %s, %d", h, length, err, tt.source, tt.dest, len(tt.data))
			}
			for n := range len(tt.data) {
				if h, length, err := Parse([]byte(tt.data[:n])); err != nil || length != 0 || h != (Header{}) {
					t.Fatalf("Parse of the first %d bytes = %v, %d, %v, want that there is more to come", n, h, length, err)
				}
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, tt := range headers {
		f.Add([]byte(tt.data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, length, err := Parse(data)
		if err != nil || length == 0 {
			if length != 0 || h != (Header{}) {
				t.Fatalf("%q: %v, %d, %v", data, h, length, err)
			}
			return
		}
		if length > len(data) || h.Source.IsValid() != h.Destination.IsValid() || h.Source.Addr().Zone() != "" {
			t.Fatalf("%q: %v, %d", data, h, length)
		}
		// What follows does not matter, and no part of it is enough.
		if again, n, err := Parse(append(data[:length:length], "GET"...)); err != nil || n != length || again != h {
			t.Fatalf("%q: %v, %d, and with more %v, %d, %v", data, h, length, again, n, err)
		}
		if again, n, err := Parse(data[:length-1]); err != nil || n != 0 {
			t.Fatalf("%q: with a byte less %v, %d, %v", data, again, n, err)
		}
	})
}

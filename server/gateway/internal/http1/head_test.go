package http1

import "testing"

func TestHeadEndIsFoundAcrossReads(t *testing.T) {
	for _, head := range []string{
		"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", "HTTP/1.1 200 OK\nA: b\n\n", "HTTP/1.1 200 OK\nA: b\n\r\n", "A\r\n\r\n", "A\r\nB\r\n\n",
	} {
		for size := 1; size <= len(head); size++ {
			text := []byte(head + "\r\n\r\nrest")
			from, got := 0, 0
			for n := 0; got == 0 && n < len(text); {
				n = min(n+size, len(text))
				got = HeadEnd(text[:n], &from)
			}
			if got != len(head) {
				t.Errorf("%q by %d bytes: got %d, want %d", head, size, got, len(head))
			}
		}
	}
}

func TestReservedFieldsAreHopByHopOrFrameTheMessage(t *testing.T) {
	for name, want := range map[string]struct{ hopByHop, reserved bool }{
		"Connection": {true, true}, "Keep-Alive": {true, true}, "Proxy-Connection": {true, true}, "Te": {true, true},
		"Proxy-Authenticate": {true, true}, "Proxy-Authorization": {true, true}, "Trailer": {true, true},
		"Transfer-Encoding": {true, true}, "Upgrade": {true, true}, "Http2-Settings": {true, true},
		"Host": {false, true}, "Expect": {false, true}, "Content-Length": {false, true},
		"Accept": {}, "Cookie": {}, "Content-Type": {}, "X": {}, "": {},
	} {
		if got := IsHopByHop(name); got != want.hopByHop {
			t.Errorf("IsHopByHop(%q) = %v, want %v", name, got, want.hopByHop)
		}
		if got := IsReserved(name); got != want.reserved {
			t.Errorf("IsReserved(%q) = %v, want %v", name, got, want.reserved)
		}
	}
}

func TestLengthsAreDigitsOnly(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "5": 5, "007": 7, "9223372036854775807": 1<<63 - 1,
		"": -1, "-1": -1, "+1": -1, " 1": -1, "1_0": -1, "0x1": -1, "5, 5": -1, "9223372036854775808": -1, "99999999999999999999": -1,
	} {
		got, ok := ParseLength(text)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("ParseLength(%q) = %d, want %d", text, got, want)
		}
	}
}

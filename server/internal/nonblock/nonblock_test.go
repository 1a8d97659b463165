//go:build unix

package nonblock

import (
	"syscall"
	"testing"
)

// pair returns two connected non-blocking sockets.
func pair(t *testing.T) (a, b uintptr) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		t.Cleanup(func() { _ = syscall.Close(fd) })
		if err := syscall.SetNonblock(fd, true); err != nil {
			t.Fatal(err)
		}
	}
	return uintptr(fds[0]), uintptr(fds[1])
}

func TestReadPeekAndWrite(t *testing.T) {
	a, b := pair(t)
	var buf [8]byte
	if n, code := Read(b, buf[:]); code != syscall.EAGAIN {
		t.Errorf("Read of an empty socket: %d, %v; want %v", n, code, syscall.EAGAIN)
	}
	if n, code := Peek(b, buf[:]); code != syscall.EAGAIN {
		t.Errorf("Peek at an empty socket: %d, %v; want %v", n, code, syscall.EAGAIN)
	}
	if n, code := Write(a, []byte("abc")); n != 3 || code != 0 {
		t.Errorf("Write: %d, %v; want 3 bytes", n, code)
	}
	for _, read := range []func(uintptr, []byte) (int, syscall.Errno){Peek, Read} {
		if n, code := read(b, buf[:]); n != 3 || code != 0 || string(buf[:3]) != "abc" {
			t.Errorf("got %d, %v, %q; want abc", n, code, buf[:3])
		}
	}
	if n, code := Read(b, buf[:]); code != syscall.EAGAIN {
		t.Errorf("Read after all was read: %d, %v; want %v", n, code, syscall.EAGAIN)
	}
}

func TestFullAndClosedSockets(t *testing.T) {
	a, b := pair(t)
	text := make([]byte, 64<<10)
	for {
		if _, code := Write(a, text); code != 0 {
			if code != syscall.EAGAIN {
				t.Errorf("Write to a full socket: %v, want %v", code, syscall.EAGAIN)
			}
			break
		}
	}
	if err := syscall.Shutdown(int(a), syscall.SHUT_WR); err != nil {
		t.Fatal(err)
	}
	for {
		n, code := Read(b, text)
		if code != 0 {
			t.Fatalf("Read: %v, want the end of the stream", code)
		}
		if n == 0 {
			break
		}
	}
	if n, code := Peek(b, text); n != 0 || code != 0 {
		t.Errorf("Peek at the end of the stream: %d, %v; want 0 bytes", n, code)
	}
}

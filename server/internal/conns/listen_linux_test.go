package conns_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/headgate/headgate/server/internal/conns"
)

func TestConnectionsHaveTheOptionsOfPackageNet(t *testing.T) {
	ours, err := conns.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got, want := acceptedOptions(t, ours), acceptedOptions(t, theirs)
	if got != want || got[0] != 1 {
		t.Errorf("options %v, want %v and keep-alive", got, want)
	}
}

// acceptedOptions returns the options of a connection that l accepts.
func acceptedOptions(t *testing.T, l net.Listener) (options [5]int) {
	t.Helper()
	defer func() { _ = l.Close() }()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		for i, o := range [5][2]int{
			{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE},
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE},
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL},
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT},
			{syscall.IPPROTO_TCP, syscall.TCP_NODELAY},
		} {
			value, err := syscall.GetsockoptInt(int(fd), o[0], o[1])
			if err != nil {
				t.Error(err)
			}
			options[i] = value
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return options
}

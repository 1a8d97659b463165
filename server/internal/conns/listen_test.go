package conns_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/server/internal/conns"
)

func TestListenReplacesAStaleSocketOnly(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "hg") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	first, err := conns.Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if got := conns.Join(first.Addr()); got != "unix:"+path {
		t.Errorf("got the address %q, want unix:%s", got, path)
	}
	if second, err := conns.Listen("unix:" + path); err == nil {
		_ = second.Close()
		t.Error("a socket in use was replaced")
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := conns.Listen("unix:" + path)
	if err != nil {
		t.Fatalf("after its process is gone: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is there after Close: %v", err)
	}
	if err := os.WriteFile(path, []byte("a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := conns.Listen("unix:" + path); err == nil {
		_ = l.Close()
		t.Error("a file was replaced")
	}
}

package topology

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/redistest"
)

// The login has until the dial timeout, even if the hang timeout is shorter.
func TestLoginHasUntilTheDialTimeout(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"2", "3"} {
		proxy := redistest.NewProxy(t, redistest.Standalone(t, redistest.Options{}).Addr())
		proxy.SetDelay(100 * time.Millisecond) // each way
		c := newClient(t, "redis://"+proxy.Addr()+"?hang_timeout=50ms&protocol="+protocol, Options{})
		if err := c.Connect(within(t, unhurried)); err != nil {
			t.Errorf("protocol %s: %v", protocol, err)
		}
	}
}

// Servers behind one address are told apart by the name, even if the certificate is not verified.
func TestTLSSendsTheServersName(t *testing.T) {
	for _, insecure := range []bool{false, true} {
		ours, theirs := net.Pipe()
		asked := make(chan string, 1)
		go func() {
			_ = tls.Server(theirs, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				asked <- hello.ServerName
				return nil, errors.New("enough")
			}}).Handshake()
			_ = theirs.Close()
		}()
		config := &tls.Config{InsecureSkipVerify: insecure, MinVersion: tls.VersionTLS12}
		if _, err := handshake(within(t, unhurried), ours, "cache.example.com:6379", config); err == nil {
			t.Error("that was a handshake")
		}
		if got := <-asked; got != "cache.example.com" {
			t.Errorf("insecure %t: asked for %q, want cache.example.com", insecure, got)
		}
	}
}

func TestForbiddenSocketIsExplained(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	// The error of package net for users other than root.
	forbidden := &net.OpError{
		Op: "dial", Net: "unix", Addr: &net.UnixAddr{Name: path, Net: "unix"}, Err: os.NewSyscallError("connect", syscall.EACCES),
	}
	err := explainDial(forbidden, path, false)
	contains(t, err, path, "may not be used by this user", "permission denied", "unixsocketperm")
	if !errors.Is(err, ErrUnreachable) || IsPermanent(err) {
		t.Errorf("got %v, want ErrUnreachable that passes when its permissions are changed", err)
	}
	if os.Geteuid() == 0 {
		return // root may connect to any socket
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, "unix://"+path, Options{})
	contains(t, c.Connect(within(t, unhurried)), explainDial(forbidden, path, false).Error())
}

package site

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// A poller waits for descriptors that are ready for reading. One goroutine serves all of them. The load must use little
// CPU time compared with the measured server, and must wake up on time; the timers of the Go runtime are not precise
// enough.
type poller struct {
	epoll  int
	events [256]unix.EpollEvent
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &poller{epoll: fd}, nil
}

func (p *poller) close() { closeAll(p.epoll) }

func (p *poller) add(fd int) error {
	return unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// wait returns the descriptors that are ready, and waits until there are some.
func (p *poller) wait() ([]unix.EpollEvent, error) { return p.poll(-1) }

// look returns the descriptors that are ready now.
func (p *poller) look() ([]unix.EpollEvent, error) { return p.poll(0) }

func (p *poller) poll(milliseconds int) ([]unix.EpollEvent, error) {
	for {
		n, err := unix.EpollWait(p.epoll, p.events[:], milliseconds)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("epoll: %w", err)
		}
		return p.events[:n], nil
	}
}

// A bell is a descriptor that is ready when an order has arrived, so that a poller can wait for orders.
type bell struct {
	fd     int // can be read if there is an order, or will be none any more
	orders chan PaceOrder
}

// newBell reads orders until in ends or contains an invalid order. silence waits until that has happened.
func newBell(in io.Reader) (b *bell, silence func(), err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	b = &bell{fd: ends[0], orders: make(chan PaceOrder, 1)}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer closeAll(ends[1])
		defer close(b.orders)
		for read := json.NewDecoder(in); ; {
			var o PaceOrder
			if read.Decode(&o) != nil {
				return // however it ends, it ends
			}
			b.orders <- o
			_, _ = unix.Write(ends[1], []byte{0}) // a pipe that has room and a reader takes it
		}
	}()
	return b, func() { <-gone; closeAll(ends[0]) }, nil
}

// next returns the next order. It returns false if there are no more.
func (b *bell) next() (PaceOrder, bool) {
	var one [1]byte
	_, _ = unix.Read(b.fd, one[:]) // whatever it says
	o, ok := <-b.orders
	return o, ok
}

// closeAll closes descriptors. It ignores errors, which have no consequence for sockets and pipes.
func closeAll(fds ...int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// listenLoopback listens on a port that the system chooses.
func listenLoopback() (fd int, address string, err error) {
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return 0, "", fmt.Errorf("socket: %w", err)
	}
	if err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err == nil {
		err = unix.Listen(fd, 1024)
	}
	var name unix.Sockaddr
	if err == nil {
		name, err = unix.Getsockname(fd)
	}
	if err != nil {
		closeAll(fd)
		return 0, "", fmt.Errorf("listen: %w", err)
	}
	return fd, net.JoinHostPort("127.0.0.1", fmt.Sprint(name.(*unix.SockaddrInet4).Port)), nil
}

// connect connects to an address and returns a non-blocking descriptor.
func connect(address string) (int, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return 0, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("socket: %w", err)
	}
	if err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err == nil {
		err = plain(fd)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		closeAll(fd)
		return 0, fmt.Errorf("connect to %s: %w", address, err)
	}
	return fd, nil
}

// plain turns off delays for small writes on a connection.
func plain(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) }

package service

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/headgate/headgate/bench/harness"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A unaryLoad sends unary gRPC calls on one connection, with a constant number in flight. It implements only the
// necessary parts of HTTP/2, in one goroutine, so that it takes a fraction of the work of any gRPC server. A complete
// client would be slower than the server, and the result would be the speed of the client.
type unaryLoad struct {
	path    string
	flight  int
	request func(dst []byte) []byte // appends the next message
	answer  []byte                  // what all answers begin with

	framer  *http2.Framer
	in      *bufio.Reader
	out     *bufio.Writer
	headers []byte         // of each call
	stream  uint32         // the last
	sent    [1 << 12]int64 // when, in ns, by stream
	good    [1 << 12]bool  // whether the answer was, by stream
	frame   []byte
	unread  uint32 // bytes of answers that the server has not been told of
	times   harness.Histogram
}

func (l *unaryLoad) run(address string, length time.Duration) (loadResult, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return loadResult{}, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(length + 20*time.Second)); err != nil {
		return loadResult{}, err
	}
	l.in, l.out = bufio.NewReaderSize(conn, 64<<10), bufio.NewWriterSize(conn, 64<<10)
	l.framer = http2.NewFramer(l.out, l.in)
	l.framer.SetReuseFrames()
	if err := l.begin(address); err != nil {
		return loadResult{}, err
	}
	began := time.Now()
	since := func() int64 { return int64(time.Since(began)) }
	for range l.flight {
		if err := l.call(since()); err != nil {
			return loadResult{}, err
		}
	}
	for under := l.flight; under > 0; {
		if l.in.Buffered() == 0 {
			if err := l.out.Flush(); err != nil {
				return loadResult{}, err
			}
		}
		ended, err := l.read()
		if err != nil {
			return loadResult{}, err
		}
		if ended == 0 {
			continue
		}
		now := since()
		l.times.Record(now - l.sent[ended/2%uint32(len(l.sent))])
		if now >= int64(length) {
			under--
		} else if err := l.call(now); err != nil {
			return loadResult{}, err
		}
	}
	return loadResult{
		Ops: l.times.Total, Took: time.Since(began),
		P50: time.Duration(l.times.Quantile(0.5)), P99: time.Duration(l.times.Quantile(0.99)),
	}, nil
}

// begin sends the connection preface, and creates the header of calls.
func (l *unaryLoad) begin(address string) error {
	if _, err := io.WriteString(l.out, http2.ClientPreface); err != nil {
		return err
	}
	if err := l.framer.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0}); err != nil {
		return err
	}
	if err := l.framer.WriteWindowUpdate(0, 1<<30); err != nil {
		return err
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encode := func() error {
		for _, f := range [][2]string{
			{":method", "POST"},
			{":scheme", "http"},
			{":path", l.path},
			{":authority", address},
			{"content-type", "application/grpc"},
			{"user-agent", "load"},
			{"te", "trailers"},
		} {
			if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := encode(); err != nil {
		return err
	}
	first := bytes.Clone(block.Bytes())
	block.Reset()
	if err := encode(); err != nil { // from now on all is in the table, as with every client
		return err
	}
	l.headers = first
	if err := l.call(0); err != nil {
		return err
	}
	l.headers = bytes.Clone(block.Bytes())
	if err := l.out.Flush(); err != nil {
		return err
	}
	for {
		ended, err := l.read()
		if err != nil || ended != 0 {
			return err
		}
	}
}

// call writes a call.
func (l *unaryLoad) call(now int64) error {
	l.stream += 2
	id := l.stream - 1
	at := id / 2 % uint32(len(l.sent))
	l.sent[at], l.good[at] = now, false
	l.frame = l.request(append(l.frame[:0], 0, 0, 0, 0, 0))
	n := len(l.frame) - 5
	l.frame[3], l.frame[4] = byte(n>>8), byte(n)
	if err := l.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: l.headers,
		EndHeaders: true,
	}); err != nil {
		return err
	}
	return l.framer.WriteData(id, true, l.frame)
}

var errWrongAnswer = errors.New("an answer that is not the one that is wanted")

// read reads a frame, and returns the id of the stream that it ends, or 0 if it ends none.
func (l *unaryLoad) read() (ended uint32, err error) {
	f, err := l.framer.ReadFrame()
	if err != nil {
		return 0, err
	}
	switch f := f.(type) {
	case *http2.DataFrame:
		at := f.StreamID / 2 % uint32(len(l.good))
		if data := f.Data(); len(data) < 5 || !bytes.HasPrefix(data[5:], l.answer) {
			return 0, fmt.Errorf("%w: %x, want %x", errWrongAnswer, data, l.answer)
		}
		l.good[at] = true
		if l.unread += f.Length; l.unread > 1<<20 {
			err = l.framer.WriteWindowUpdate(0, l.unread)
			l.unread = 0
		}
		return 0, err
	case *http2.HeadersFrame:
		if !f.StreamEnded() {
			return 0, nil
		}
		if !l.good[f.StreamID/2%uint32(len(l.good))] {
			return 0, fmt.Errorf("%w: a call that failed", errWrongAnswer)
		}
		return f.StreamID, nil
	case *http2.PingFrame:
		if !f.IsAck() {
			err = l.framer.WritePing(true, f.Data)
		}
		return 0, err
	case *http2.SettingsFrame:
		if !f.IsAck() {
			err = l.framer.WriteSettingsAck()
		}
		return 0, err
	case *http2.RSTStreamFrame:
		return 0, fmt.Errorf("the server has reset a call: %v", f.ErrCode)
	case *http2.GoAwayFrame:
		return 0, fmt.Errorf("the server wants to be left alone: %v %s", f.ErrCode, f.DebugData())
	default:
		return 0, nil
	}
}

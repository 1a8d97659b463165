package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/headgate/headgate/server/control"
)

// A Snapshot is a stream of the objects that a node needs. It must be closed.
type Snapshot struct {
	*control.Reader

	body   *timedBody
	cancel context.CancelCauseFunc
}

// Close closes the stream. It may be called before the stream was read to its end.
func (s *Snapshot) Close() error {
	s.cancel(nil)
	return s.body.close()
}

// Bytes returns the number of decompressed bytes that were read.
func (s *Snapshot) Bytes() int64 { return s.body.read }

// Snapshot requests the changes since a mark or, if its revision is 0, all objects. The service also sends all objects
// if it does not know the mark. Since in the header is then 0. Snapshot returns nil if nothing has changed.
func (c *Client) Snapshot(ctx context.Context, since control.Mark) (*Snapshot, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	// The service may need a long time to read a million objects before it sends the first one.
	timer := time.AfterFunc(max(firstByteTimeout, c.config.Timeout), func() { cancel(errTimeout) })
	snapshot := apiCall{
		method: http.MethodGet, path: "/v1/snapshot", query: url.Values{},
		header: http.Header{"Accept": {control.SnapshotType}},
	}
	if since.Revision > 0 {
		snapshot.query.Set("since", since.String())
		snapshot.header.Set("If-None-Match", `"`+since.String()+`"`)
	}
	response, err := c.send(ctx, snapshot) //nolint:bodyclose // body.close does
	if err != nil {
		timer.Stop()
		err = timeoutOr(ctx, err)
		cancel(nil)
		return nil, err
	}
	body := &timedBody{body: response.Body, timer: timer, timeout: c.config.Timeout, ctx: ctx}
	if response.StatusCode == http.StatusNotModified {
		defer cancel(nil)
		return nil, body.close()
	}
	reader, err := control.NewReader(body)
	if err == nil && reader.Header.Namespace != c.config.Namespace {
		err = fmt.Errorf("%w: wrong namespace %q", control.ErrBroken, reader.Header.Namespace)
	}
	if err != nil {
		err = fmt.Errorf("GET %s/v1/snapshot: %w", c.name, errors.Join(err, body.close()))
		cancel(nil)
		return nil, err
	}
	return &Snapshot{Reader: reader, body: body, cancel: cancel}, nil
}

// firstByteTimeout is the minimum timeout for the beginning of a snapshot.
const firstByteTimeout = time.Minute

// A timedBody reads a body of at most maxSnapshot bytes. It fails if no data is received within timeout.
type timedBody struct {
	body    io.ReadCloser
	read    int64       // number of bytes
	timer   *time.Timer // cancels ctx
	timeout time.Duration
	ctx     context.Context
}

func (b *timedBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.timeout)
	n, err := b.body.Read(p)
	if b.read += int64(n); b.read > maxSnapshot {
		return n, fmt.Errorf("more than %d bytes", maxSnapshot)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = timeoutOr(b.ctx, err)
	}
	return n, err
}

func (b *timedBody) close() error {
	b.timer.Stop()
	return b.body.Close()
}

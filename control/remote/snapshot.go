package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/headgate/headgate/control"
)

// A Snapshot is what a node is sent, read as it comes. Close it.
type Snapshot struct {
	*control.Reader

	body   *patientBody
	cancel context.CancelCauseFunc
}

// Close ends it, read to its end or not.
func (s *Snapshot) Close() error {
	s.cancel(nil)
	return s.body.close()
}

// Bytes returns how much of it was read, as it is written, not as it was sent.
func (s *Snapshot) Bytes() int64 { return s.body.read }

// Snapshot asks for all that the namespace's nodes get, or for what has changed since a revision if that is not 0: the header
// says which of the two was sent, since the service may not know any more what has changed, or not know of that revision. It is
// nil if there is nothing else than what is known already.
func (c *Client) Snapshot(ctx context.Context, since control.Mark) (*Snapshot, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	// It may take a while to gather a million objects before the first is sent.
	patience := time.AfterFunc(max(gathering, c.config.Timeout), func() { cancel(errSilent) })
	what := call{
		method: http.MethodGet, path: "/v1/snapshot", query: url.Values{}, header: http.Header{"Accept": {control.SnapshotType}},
	}
	if since.Revision > 0 {
		what.query.Set("since", since.String())
		what.header.Set("If-None-Match", `"`+since.String()+`"`)
	}
	answer, err := c.send(ctx, what) //nolint:bodyclose // body.close does
	if err != nil {
		patience.Stop()
		err = silentOr(ctx, err)
		cancel(nil)
		return nil, err
	}
	body := &patientBody{from: answer.Body, patience: patience, timeout: c.config.Timeout, ctx: ctx}
	if answer.StatusCode == http.StatusNotModified {
		defer cancel(nil)
		return nil, body.close()
	}
	reader, err := control.NewReader(body)
	if err == nil && reader.Header.Namespace != c.config.Namespace {
		err = fmt.Errorf("%w: it is of namespace %q", control.ErrBroken, reader.Header.Namespace)
	}
	if err != nil {
		err = fmt.Errorf("GET %s/v1/snapshot: %w", c.name, errors.Join(err, body.close()))
		cancel(nil)
		return nil, err
	}
	return &Snapshot{Reader: reader, body: body, cancel: cancel}, nil
}

// gathering is how long the service may take before it begins to send.
const gathering = time.Minute

// A patientBody is read for as long as something comes, and up to a bound.
type patientBody struct {
	from     io.ReadCloser
	read     int64
	patience *time.Timer
	timeout  time.Duration
	ctx      context.Context
}

func (b *patientBody) Read(p []byte) (int, error) {
	b.patience.Reset(b.timeout)
	n, err := b.from.Read(p)
	if b.read += int64(n); b.read > maxSnapshot {
		return n, fmt.Errorf("more than %d bytes", maxSnapshot)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = silentOr(b.ctx, err)
	}
	return n, err
}

func (b *patientBody) close() error {
	b.patience.Stop()
	return b.from.Close()
}

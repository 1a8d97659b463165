package manage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/remote"
)

// A batchCounter counts the lines of each call, and fails at one of the calls.
type batchCounter struct {
	batches []int
	failAt  int
}

func (c *batchCounter) send(_ context.Context, lines io.Reader) (*edit.Imported, error) {
	data, err := io.ReadAll(lines)
	if err != nil {
		return nil, err
	}
	n := bytes.Count(data, []byte("{"))
	c.batches = append(c.batches, n)
	if len(c.batches) == c.failAt {
		return nil, &remote.Error{Status: 422, Errors: []source.Problem{{Line: 3}}, Import: &edit.Imported{Clients: 2, Created: 2}}
	}
	return &edit.Imported{Revision: int64(len(c.batches)), Clients: n, Created: n}, nil
}

func TestClientImportShowsProgressAfterBatches(t *testing.T) {
	now := time.Unix(0, 0)
	tick := func() time.Time { now = now.Add(5 * time.Second); return now }
	var shown strings.Builder
	calls := &batchCounter{}
	in := &clientImport{send: calls.send, progress: &shown, now: tick}
	sum, err := in.run(t.Context(), strings.NewReader(strings.Repeat("{}\n", 12_000)+"{}"))
	if err != nil || sum.Clients != 12_001 || sum.Created != 12_001 || sum.Revision != 3 {
		t.Errorf("got %+v, %v, want 12001 clients in 3 revisions", sum, err)
	}
	if got := calls.batches; len(got) != 3 || got[0] != importBatch || got[2] != 2_001 {
		t.Errorf("got batches of %v, want 5000, 5000 and 2001", got)
	}
	if want := "headgate: imported 5000 clients in 5s\nheadgate: imported 10000 clients in 10s\nheadgate: imported 12001 clients in 15s\n"; shown.String() != want {
		t.Errorf("got %q, want %q", shown.String(), want)
	}
}

func TestClientImportNamesTheLineOfTheFile(t *testing.T) {
	calls := &batchCounter{failAt: 2}
	in := &clientImport{send: calls.send, progress: io.Discard, now: time.Now}
	sum, err := in.run(t.Context(), strings.NewReader(strings.Repeat("{}\n", 9_000)))
	var failed *remote.Error
	if !errors.As(err, &failed) || failed.Errors[0].Line != 5_003 {
		t.Errorf("got %v, want an error in line 5003", err)
	}
	if sum.Clients != 5_002 {
		t.Errorf("got %d clients that were registered before the error, want 5002", sum.Clients)
	}
}

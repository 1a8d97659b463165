package follow_test

import (
	"errors"
	"testing"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/follow"
)

func TestDeferredFailsUntilItHasASource(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	errsOf := func(d *follow.Deferred) map[string]error {
		_, _, heartbeat := d.Heartbeat(ctx, control.Node{})
		return map[string]error{
			"Err": d.Err(), "Fetch": d.Fetch(ctx, control.Mark{}, nil), "Heartbeat": heartbeat,
			"Leave": d.Leave(ctx, control.Node{}),
		}
	}
	d := follow.NewDeferred("postgres://user:password@db.example.com/rules", namespace)
	for name, err := range errsOf(d) {
		if err == nil {
			t.Errorf("%s before the first attempt to open the database: got nil, want an error", name)
		}
	}
	refused := errors.New("connection refused")
	d.Failed(refused)
	for name, err := range errsOf(d) {
		if !errors.Is(err, refused) {
			t.Errorf("%s after a failed attempt: got %v, want %v", name, err, refused)
		}
	}
	d.Opened(follow.Database(openDB(t), namespace, nil))
	if err := d.Err(); err != nil {
		t.Errorf("Err of an open database: got %v, want nil", err)
	}
	if _, _, err := d.Heartbeat(ctx, control.Node{}); err != nil {
		t.Errorf("Heartbeat of an open database: got %v, want nil", err)
	}
}

package feed

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/server/control/sqlite"
)

// Closing a watcher twice makes room for one watcher, not two.
func TestClosingAWatcherAgainDoesNothing(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "rules.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	h := NewHub(db, 1, slog.New(slog.DiscardHandler))
	first, _, err := h.Watch(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	first.Close()
	second, _, err := h.Watch(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, _, err := h.Watch(t.Context(), "n"); !errors.Is(err, ErrTooManyWatchers) {
		t.Errorf("a second watcher of one: got %v, want %v", err, ErrTooManyWatchers)
	}
}

//go:build unix

package pgtest

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestKilledServerKeepsItsData(t *testing.T) {
	var s *Server
	t.Run("test", func(t *testing.T) {
		s = Start(t, Options{Durable: true})
		url := s.NewSchema(t)
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "CREATE TABLE x AS SELECT 1 AS n"); err != nil {
			t.Fatal(err)
		}
		s.Kill()
		s.Restart()
		if conn, err = pgx.Connect(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := conn.QueryRow(t.Context(), "SELECT n FROM x").Scan(&n); err != nil || n != 1 {
			t.Errorf("got %d, %v; want 1", n, err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if s.process.Running() {
		t.Error("it runs")
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("%s: got %v, want no such directory", s.dir, err)
	}
}

package fleetredis

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
)

func TestBoardTellsTheDateOfTheServer(t *testing.T) {
	t.Parallel()
	const ahead = 36 * time.Hour
	server := redistest.Standalone(t, redistest.Options{ClockOffset: ahead})
	s := open(t, server.URL(), redisstore.Options{})
	a := newNode(t, s, "a", 1)
	for range 2 { // at first the server does not know the script
		before := time.Now()
		date, err := a.Time(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		after := time.Now()
		if date.Before(before.Add(ahead-time.Minute)) || date.After(after.Add(ahead+time.Minute)) {
			t.Errorf("got %v, want about %v", date, after.Add(ahead))
		}
		server.FlushScripts()
	}
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), dialTimeout)
	defer cancel()
	if _, err := a.Time(ctx); err == nil {
		t.Error("when the server is gone: got no error")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Time(t.Context()); !errors.Is(err, headgate.ErrClosed) {
		t.Errorf("when closed: got %v, want ErrClosed", err)
	}
}

// All nodes of a fleet hear the date of one server, though those of a cluster have different ones.
func TestBoardsOfAClusterTellOneDate(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t, redistest.ClusterOptions{Clocks: []time.Duration{0, time.Hour, 2 * time.Hour, 0, time.Hour, 2 * time.Hour}})
	var dates []time.Time
	for _, name := range []string{"a", "b", "c"} {
		date, err := newNode(t, open(t, set.URL(), redisstore.Options{}), name, 1).Time(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		dates = append(dates, date)
	}
	for _, date := range dates[1:] {
		if apart := date.Sub(dates[0]).Abs(); apart > 30*time.Minute {
			t.Errorf("dates are %v apart: %v", apart, dates)
		}
	}
}

// A replica has a date of its own, which is not asked for even where replicas are.
func TestBoardTellsTheDateOfThePrimaryThoughReplicasAreRead(t *testing.T) {
	t.Parallel()
	const ahead = 5 * time.Hour
	set := redistest.Cluster(t, redistest.ClusterOptions{Clocks: []time.Duration{0, 0, 0, ahead, ahead, ahead}})
	a := newNode(t, open(t, set.URL(), redisstore.Options{ReadReplicas: true}), "a", 1)
	for range 5 {
		date, err := a.Time(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if off := time.Until(date).Abs(); off > ahead/2 {
			t.Fatalf("got %v, which is off by %v: want that of a primary", date, off)
		}
	}
}

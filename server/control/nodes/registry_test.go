package nodes_test

import (
	"errors"
	"net/netip"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/nodes"
	"github.com/headgate/headgate/server/control/sqlite"
)

func TestResolveAddress(t *testing.T) {
	for _, tt := range []struct {
		address, from, want string
		askable             bool
	}{
		{"http://0.0.0.0:8084", "192.0.2.7", "http://192.0.2.7:8084", true},
		{"http://[::]:8084", "2001:db8::7", "http://[2001:db8::7]:8084", true},
		{"http://10.0.0.5:8084", "192.0.2.7", "http://10.0.0.5:8084", true},
		{"http://node-1:8084", "192.0.2.7", "http://node-1:8084", true},
		{"http://127.0.0.1:8084", "127.0.0.1", "http://127.0.0.1:8084", true},
		{"http://127.0.0.1:8084", "192.0.2.7", "http://127.0.0.1:8084", false},
		{"http://localhost:8084", "192.0.2.7", "http://localhost:8084", false},
	} {
		n := control.Node{Address: tt.address, QueryKey: "key"}
		nodes.ResolveAddress(&n, netip.MustParseAddr(tt.from))
		if n.Address != tt.want || (n.QueryKey != "") != tt.askable {
			t.Errorf("%s from %s: got %s, key %q; want %s, askable %v", tt.address, tt.from, n.Address, n.QueryKey, tt.want, tt.askable)
		}
	}
}

func TestFullRegistryMakesRoomForSmallNamespaces(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "rules.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r := nodes.NewRegistry(db, time.Now)
	r.SetMax(3)
	heartbeat := func(namespace, id string) error {
		_, err := r.Heartbeat(t.Context(), control.Node{Namespace: namespace, ID: id})
		return err
	}
	for _, id := range []string{"a", "b", "c"} {
		if err := heartbeat("large", id); err != nil {
			t.Fatal(err)
		}
	}
	var full *nodes.FullError
	if err := heartbeat("large", "d"); !errors.As(err, &full) || full.Max != 3 {
		t.Errorf("a fourth node of the same namespace: got %v, want a FullError of 3", err)
	}
	if err := heartbeat("small", "a"); err != nil {
		t.Errorf("a node of another namespace: got %v, want room for it", err)
	}
}

// Processes with the same database learn at once that requests pass without a limit on a node, and that they ceased to.
func TestFailingOpenIsWrittenAtOnce(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "rules.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	start := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	now := start
	first, second := nodes.NewRegistry(db, func() time.Time { return now }), nodes.NewRegistry(db, time.Now)
	for _, health := range []control.HealthStats{
		{},
		{UnlimitedPerSecond: 1, UnlimitedSince: start},
		{UnlimitedPerSecond: 1, UnlimitedSince: start, UnlimitedUntil: start.Add(time.Second)},
		{},
	} {
		now = now.Add(time.Second)
		if _, err := first.Heartbeat(t.Context(), control.Node{Namespace: "shop", ID: "a", Health: &health}); err != nil {
			t.Fatal(err)
		}
		list, err := second.List(t.Context(), "shop")
		if err != nil || len(list) != 1 || !reflect.DeepEqual(*list[0].Health, health) {
			t.Errorf("got %+v, %v, want the health %+v", list, err, health)
		}
	}
}

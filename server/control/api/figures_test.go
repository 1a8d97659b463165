package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/token"
)

// figures are fleet figures of a node, with a different value in each field.
const figures = `{"live":2,"known":3,"sync":[{"mode":"async","up":true,"lag_ms":48.125,"lag_max_ms":97.5,"over":31,"over_max":8,` +
	`"applied":5120,"lost":1,"clock_ahead_ms":-3.2,"clocks_off":4,"keys":120,"waiting":5,"sent":900,"received":870,"failed":6,"refused":7,` +
	`"evicted":21,"full":22,"lookups":23,"lookup_waits":24,"lookups_dropped":25}],` +
	`"leases":{"keys":12,"calls":340,"failed":9,"granted":100000,"returned":2300,"expired":15,"denied":31,"waits":32,` +
	`"exact":33,"degraded":34}}`

func TestNodesReportFleetFigures(t *testing.T) {
	s := open(t, api.Config{})
	bearer := s.token("node", token.Node, "default")
	s.as(bearer, "PUT", "/v1/nodes/n1", `{"store":"ok","fleet":`+figures+`}`).wants(200)
	s.call("GET", "/v1/nodes", "").wants(200, `"fleet":`+figures)
	// Later figures are shown, too, although not all are written to the database.
	later := strings.Replace(figures, `"over":31`, `"over":32`, 1)
	s.as(bearer, "PUT", "/v1/nodes/n1", `{"store":"ok","fleet":`+later+`}`).wants(200)
	s.call("GET", "/v1/nodes", "").wants(200, `"fleet":`+later)
	s.as(bearer, "PUT", "/v1/nodes/n1", `{"store":"ok"}`).wants(200)
	if got := s.call("GET", "/v1/nodes", "").wants(200); strings.Contains(got.body, "fleet") {
		t.Errorf("got %s of a node that shares nothing", got.body)
	}
}

// countedStates counts the writes of states.
type countedStates struct {
	control.DB
	put  atomic.Int64
	full atomic.Bool
}

func (c *countedStates) PutState(ctx context.Context, s control.State) error {
	if c.full.Load() {
		return control.ErrFull
	}
	c.put.Add(1)
	return c.DB.PutState(ctx, s)
}

// A node that could not be written to a full database is written with the next heartbeat, not a minute later.
func TestNodeIsListedOnceTheRegistryHasRoom(t *testing.T) {
	db := &countedStates{DB: openDB(t)}
	s := open(t, api.Config{DB: db})
	db.full.Store(true)
	for range 2 {
		s.call("PUT", "/v1/nodes/n1", `{"store":"ok"}`).wants(507)
	}
	s.call("GET", "/v1/nodes", "").wants(200, `"nodes":[]`)
	db.full.Store(false)
	s.call("PUT", "/v1/nodes/n1", `{"store":"ok"}`).wants(200)
	s.call("GET", "/v1/nodes", "").wants(200, `"id":"n1"`)
}

// Figures change with each heartbeat, but are not written to the database each time.
func TestNodeFiguresAreNotWrittenWithEachHeartbeat(t *testing.T) {
	db := &countedStates{DB: openDB(t)}
	now := newClock()
	s := open(t, api.Config{DB: db, Now: now.time})
	for i := range int64(10) {
		now.add(time.Second)
		n := control.Node{ID: "n1", Namespace: "default", Store: "ok", Fleet: &control.FleetStats{Live: i, Known: i}}
		if _, err := s.server.Heartbeat(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		s.call("GET", "/v1/nodes", "").wants(200, fmt.Sprintf(`"live":%d`, i))
	}
	if got := db.put.Load(); got != 1 {
		t.Errorf("the database was told %d times within a minute, want once", got)
	}
}

func TestInvalidFiguresAreRefused(t *testing.T) {
	s := open(t, api.Config{})
	bearer := s.token("node", token.Node, "default")
	most := fmt.Sprint(int64(control.MaxStat))
	for _, test := range []struct{ from, to, path string }{
		{`"over":31`, `"over":-1`, "fleet.sync[0].over"},
		{`"over_max":8`, `"over_max":9007199254740992`, "fleet.sync[0].over_max"},
		{`"live":2`, `"live":4`, "fleet.live"},
		{`"known":3`, `"known":9223372036854775807`, "fleet.known"},
		{`"lag_ms":48.125`, `"lag_ms":-0.001`, "fleet.sync[0].lag_ms"},
		{`"lag_max_ms":97.5`, `"lag_max_ms":1e14`, "fleet.sync[0].lag_max_ms"},
		{`"clock_ahead_ms":-3.2`, `"clock_ahead_ms":-1e14`, "fleet.sync[0].clock_ahead_ms"},
		{`"expired":15`, `"expired":-15`, "fleet.leases.expired"},
		{`"mode":"async"`, `"mode":""`, "fleet.sync[0].mode"},
		{`"mode":"async"`, `"mode":"` + strings.Repeat("x", 33) + `"`, "fleet.sync[0].mode"},
		{`}],"leases"`, `},{"mode":"async"}],"leases"`, "fleet.sync[1].mode"},
		{`}],"leases"`, `}` + strings.Repeat(`,{"mode":"x"}`, 8) + `],"leases"`, "fleet.sync"},
		{`"sent":900`, `"sent":1.5`, "fleet.sync.sent"},
		{`"sent":900`, `"sent":1e400`, "fleet.sync.sent"},
	} {
		body := strings.Replace(figures, test.from, test.to, 1)
		if body == figures {
			t.Fatalf("%s is not there", test.from)
		}
		s.as(bearer, "PUT", "/v1/nodes/n1", `{"fleet":`+body+`}`).wants(422, `"`+test.path+`"`)
	}
	s.call("GET", "/v1/nodes", "").wants(200, `"nodes":[]`)
	s.as(bearer, "PUT", "/v1/nodes/n1", `{"fleet":`+strings.Replace(figures, `"sent":900`, `"sent":`+most, 1)+`}`).wants(200)
}

func TestInvalidHeartbeatsAreRefused(t *testing.T) {
	s := open(t, api.Config{})
	bearer := s.token("node", token.Node, "default")
	for _, test := range []struct{ body, path string }{
		{`{"revision":-1}`, "revision"},
		{`{"revision":9007199254740992}`, "revision"},
		{`{"revision":1.5}`, "revision"},
		{`{"revision":"1"}`, "revision"},
		{`{"lag_ms":-1}`, "lag_ms"},
		{`{"lag_ms":10000000000001}`, "lag_ms"},
		{`{"lag_ms":1e400}`, "lag_ms"},
		{`{"from_disk":1}`, "from_disk"},
		{`{"started":"yesterday"}`, "started"},
		{`{"started":-1}`, "started"},
	} {
		got := s.as(bearer, "PUT", "/v1/nodes/n1", test.body).wants(422, `"path":"`+test.path+`"`)
		if kind := got.header.Get("Content-Type"); kind != "application/problem+json" {
			t.Errorf("%s: got %s, want a problem", test.body, kind)
		}
	}
	s.as(bearer, "PUT", "/v1/nodes/n1", `{"revision":-1,"lag_ms":-2,"fleet":{"live":-3}}`).wants(422, `"path":"revision"`, `"path":"lag_ms"`, `"path":"fleet.live"`)
	s.call("GET", "/v1/nodes", "").wants(200, `"nodes":[]`)
	s.as(bearer, "PUT", "/v1/nodes/n1", `{"revision":9007199254740991,"lag_ms":10000000000000}`).wants(200)
}

// A node clamps its figures to the limits, so that its heartbeats are valid.
func TestClampedFiguresAreValid(t *testing.T) {
	for _, n := range []int64{-1 << 63, -1, 0, 1, 1<<63 - 1} {
		var f control.FleetStats
		f.Sync, f.Leases = []control.SyncStats{{Mode: "async"}}, new(control.LeaseStats)
		fill(reflect.ValueOf(&f).Elem(), n)
		if n < 0 && len(f.Problems()) < 20 {
			t.Errorf("%d: got %d problems, want one for nearly every field: some are not looked at", n, len(f.Problems()))
		}
		f.Live = 7
		f.Clamp()
		if got := f.Problems(); got != nil {
			t.Errorf("%d: got %+v after Bound", n, got)
		}
	}
}

// fill sets all numbers of a value.
func fill(v reflect.Value, n int64) {
	switch v.Kind() {
	case reflect.Int64:
		v.SetInt(n)
	case reflect.Float64:
		v.SetFloat(float64(n))
	case reflect.Pointer:
		fill(v.Elem(), n)
	case reflect.Slice:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	}
}

// A node may have a later version than the rules service. Its unknown fields are ignored, and its heartbeat is
// accepted.
func TestHeartbeatsOfALaterVersionAreAccepted(t *testing.T) {
	s := open(t, api.Config{})
	bearer := s.token("node", token.Node, "default")
	body := strings.Replace(figures, `"up":true`, `"up":true,"later":[{"x":1}]`, 1)
	body = strings.Replace(body, `"live":2`, `"live":2,"mood":"good"`, 1)
	body = strings.Replace(body, `}],"leases"`, `},{"mode":"telepathy","up":true}],"leases"`, 1)
	s.as(bearer, "PUT", "/v1/nodes/n1", `{"version":"9.0","later":{"deep":true},"store":"ok","fleet":`+body+`}`).wants(200)
	got := s.call("GET", "/v1/nodes", "").wants(200, `"version":"9.0"`, `"mode":"async"`, `"mode":"telepathy"`)
	for _, unknown := range []string{"later", "mood"} {
		if strings.Contains(got.body, unknown) {
			t.Errorf("got %s, want nothing of %q", got.body, unknown)
		}
	}
	// Known fields must still be valid and complete.
	for _, bad := range []string{`{"version":9}`, `{"version":"9","version":"8"}`, `{"version":"9"`, `[]`, ``} {
		if a := s.as(bearer, "PUT", "/v1/nodes/n1", bad); a.status != 422 && a.status != 400 {
			t.Errorf("%s: got %d, want 422 or 400", bad, a.status)
		}
	}
	var list struct{ Nodes []control.Node }
	if err := json.Unmarshal([]byte(got.body), &list); err != nil || len(list.Nodes) != 1 || len(list.Nodes[0].Fleet.Sync) != 2 {
		t.Errorf("got %v and %+v", err, list)
	}
}

package traffic_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/server/telemetry/traffic"
)

// A client never has more requests in a window than its rule: the first minute counts with the part in the window.
func TestClientsAreCountedInTheirWindowOnly(t *testing.T) {
	h := traffic.NewHistory(traffic.HistoryOptions{})
	const perSecond = 10
	now := start
	for range 15 * 60 {
		minute := now.Unix() - now.Unix()%60
		sent := uint64(now.Unix()-minute+1) * perSecond
		now = now.Add(time.Second)
		h.Add(&traffic.Report{
			Node: "a", Started: 1, Minute: minute,
			Seconds: []traffic.Second{{Unix: now.Unix() - 1, Rows: []traffic.Row{{Rule: "r", Counts: traffic.Counts{Requests: perSecond}}}}},
			Clients: []traffic.ClientCount{{Client: `{"user":"a"}`, Rule: "r", Requests: sent, Denied: sent / 2}},
		}, now)
	}
	for _, after := range []time.Duration{0, 15 * time.Second, 45 * time.Second} {
		for _, window := range []time.Duration{time.Minute, 5 * time.Minute, 10 * time.Minute} {
			got := h.Clients(traffic.ClientsQuery{Window: window, Limit: 1}, now.Add(after)).Clients
			want := uint64((window - after).Seconds()) * perSecond
			if len(got) != 1 || got[0].Requests != want || got[0].Denied != want/2 || got[0].Allowed != want/2 {
				t.Errorf("%v after the last request, in %v: got %+v, want %d requests, half of them denied", after, window, got, want)
			}
		}
	}
}

// A rule whose enforcement was off for a minute is not shown as a shadow rule, which denies nothing.
func TestClientOfARuleThatWasShadowForATimeIsDenied(t *testing.T) {
	h := traffic.NewHistory(traffic.HistoryOptions{})
	for i, c := range []traffic.ClientCount{
		{Requests: 10, Denied: 9}, {Requests: 10, Denied: 9, Shadow: true}, {Requests: 10, Denied: 0, Shadow: true}, {Requests: 10, Denied: 1},
	} {
		now := start.Add(time.Duration(i) * time.Minute)
		c.Client, c.Rule = `{"user":"a"}`, "r"
		h.Add(&traffic.Report{Node: "a", Started: 1, Minute: now.Unix(), Clients: []traffic.ClientCount{c}}, now)
	}
	for _, test := range []struct {
		window time.Duration
		shadow bool
		denied uint64
	}{{10 * time.Minute, false, 19}, {time.Minute, false, 1}} {
		got := h.Clients(traffic.ClientsQuery{Window: test.window, Limit: 1}, start.Add(4*time.Minute)).Clients
		if len(got) != 1 || got[0].Shadow != test.shadow || got[0].Denied != test.denied {
			t.Errorf("in %v: got %+v, want %d denials, shadow %v", test.window, got, test.denied, test.shadow)
		}
	}
}

func TestDeniedClientsComeBeforeThoseOfShadowRules(t *testing.T) {
	r := newRig(t, `rules: [{ id: enforced, key: user, limits: 8/h }, { id: shadow, key: user, limits: 1/h, on_limit: shadow }]`,
		traffic.Clear)
	r.send(10, attributes("user", "noisy"))
	r.send(5, attributes("user", "quiet"))
	r.pass(6 * time.Second)
	want := `{"user":"noisy"} enforced 10=8+2; {"user":"noisy"} shadow 10=10+9; {"user":"quiet"} shadow 5=5+4; {"user":"quiet"} enforced 5=5+0`
	if got := r.clients(traffic.ClientsQuery{}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

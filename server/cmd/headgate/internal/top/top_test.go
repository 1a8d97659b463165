package top

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

func someFigures() *Figures {
	columns := func(requests, denied uint64) traffic.Columns {
		zero := []uint64{0, 0}
		return traffic.Columns{Requests: []uint64{0, requests}, Denied: []uint64{0, denied}, ShadowDenied: zero, Degraded: zero}
	}
	return &Figures{
		Traffic: &traffic.Series{Step: "1s", Total: columns(30, 12), Rules: []traffic.RuleSeries{
			{Rule: "busy", Columns: columns(20, 2)}, {Rule: "search-per-user", Columns: columns(10, 10)},
		}},
		Clients: []traffic.ClientCount{
			{Client: `{"user":"noisy"}`, Rule: "search-per-user", Requests: 10, Denied: 10},
			{Client: traffic.RawClient(`{"user":"` + strings.Repeat("long", 50) + `\u001b"}`), Rule: "busy", Requests: 5, Allowed: 5},
		},
		Nodes: []control.Node{{ID: "eu-1", Store: "ok"}, {ID: "eu-2", Store: "redis is unreachable"}},
	}
}

func TestTheScreenFitsAnyTerminal(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {40, 10}, {200, 60}, {1, 1}} {
		s := screen{figures: someFigures(), order: ByDenied, server: "http://127.0.0.1:8084", width: size[0], height: size[1]}
		lines := strings.Split(s.view(), "\n")
		if len(lines) > size[1] {
			t.Errorf("%v: got %d lines", size, len(lines))
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > size[0] || strings.ContainsRune(line, '\x1b') {
				t.Errorf("%v: got %q", size, line)
			}
		}
	}
}

func TestTheScreenNamesWhoIsDeniedByWhichRule(t *testing.T) {
	s := screen{figures: someFigures(), order: ByDenied, width: 80, height: 24}
	got := s.view()
	for _, want := range []string{"15.0 req/s  6.0 denied/s", "eu-2: redis is unreachable", "user=noisy", "▁█"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
	if strings.Index(got, "search-per-user") > strings.Index(got, "busy") {
		t.Errorf("got\n%s\nwant the rule that denies most first", got)
	}
}

func TestTheScreenShowsNodesAndMarksShadowRules(t *testing.T) {
	f := someFigures()
	f.Clients = append([]traffic.ClientCount{
		{Client: `{"user":"watched"}`, Rule: "trial", Requests: 99, Allowed: 99, Denied: 90, Shadow: true},
	}, f.Clients...)
	s := screen{figures: f, order: ByDenied, width: 80, height: 24}
	got := s.view()
	if strings.Index(got, "user=noisy") > strings.Index(got, "user=watched") || !strings.Contains(got, "90 shadow\n") {
		t.Errorf("got\n%s\nwant clients that were served after one that was denied, and marked", got)
	}
	s.search = "NOISY"
	rules, _, _ := strings.Cut(s.view(), "CLIENT")
	if got := s.view(); !strings.Contains(rules, "search-per-user ") || strings.Contains(got, "\nbusy ") {
		t.Errorf("got\n%s\nwant the rule of the client that the filter finds, and no other", got)
	}
	if eu2 := strings.Index(got, "\neu-2 "); eu2 < 0 || eu2 > strings.Index(got, "\neu-1 ") ||
		!strings.Contains(got, "memory: redis is unreach") {
		t.Errorf("got\n%s\nwant both nodes with their stores, the one with a problem first", got)
	}
}

func TestTheScreenSaysHowManyRulesAreLeftOut(t *testing.T) {
	f := someFigures()
	f.Traffic.MoreRules = 20
	s := screen{figures: f, order: ByDenied, width: 80, height: 24}
	if got := s.view(); !strings.Contains(got, "\nand 20 more\n") || !strings.Contains(got, "busy") {
		t.Errorf("got\n%s\nwant both rules and how many there are besides", got)
	}
	s.height = 13
	if got := s.view(); !strings.Contains(got, " more\n\nCLIENT") {
		t.Errorf("got\n%s\nwant how many rules do not fit", got)
	}
}

func TestTheScreenShowsRedisServers(t *testing.T) {
	f := someFigures()
	for i := range 9 {
		f.Stores = append(f.Stores, control.ServerStats{
			Server: fmt.Sprintf("10.0.0.%d:6379", i), Role: control.RolePrimary, Up: i != 8, Error: "connection refused",
			OpsPerSecond: 48211, CPU: 0.43, MemoryBytes: 104_857_600, PingMS: 0.21,
		})
	}
	s := screen{figures: f, order: ByDenied, width: 80, height: 24}
	got := s.view()
	for _, want := range []string{
		"10.0.0.0:6379         primary     48211   43 %   104.9 MB   0.2 ms  ok\n", "down: conn", "\nand 7 more\n",
		"user=noisy", "search-per-user", "\neu-1 ", "\neu-2 ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
	if strings.Index(got, "10.0.0.8:6379") > strings.Index(got, "10.0.0.0:6379") {
		t.Errorf("got\n%s\nwant the server that is down first", got)
	}
}

func TestKeysSortFilterPauseAndQuit(t *testing.T) {
	var asked []Query
	m := &model{
		load: func(q Query) (*Figures, error) {
			asked = append(asked, q)
			return nil, errors.New("unreachable")
		},
		screen: screen{figures: someFigures(), order: ByDenied, width: 80, height: 24},
	}
	press := func(keys ...tea.KeyPressMsg) (last tea.Cmd) {
		for _, k := range keys {
			_, last = m.Update(k)
		}
		return last
	}
	letter := func(r rune) tea.KeyPressMsg { return tea.KeyPressMsg{Code: r, Text: string(r)} }
	press(letter('s'), letter('/'), letter('b'), letter('x'), tea.KeyPressMsg{Code: tea.KeyBackspace}, letter('u'),
		tea.KeyPressMsg{Code: tea.KeyEnter}, letter('p'))
	if m.order != ByRequests || m.search != "bu" || m.editing || !m.paused {
		t.Errorf("got order %s, search %q, editing %v, paused %v", m.order, m.search, m.editing, m.paused)
	}
	if got := m.view(); !strings.Contains(got, "paused") || strings.Contains(got, "search-per-user  ") &&
		strings.Index(got, "search-per-user") < strings.Index(got, "CLIENT") {
		t.Errorf("got\n%s\nwant only the rules of the filter", got)
	}
	_, command := m.Update(refresh{})
	m.Update(command())
	if len(asked) != 1 || asked[0].Order != ByRequests || asked[0].Search != "bu" || !strings.Contains(m.view(), "unreachable") {
		t.Errorf("got %+v and\n%s", asked, m.view())
	}
	if command := press(letter('q')); command == nil || command() != tea.Quit() {
		t.Error("q: got no quit")
	}
}

package node

import (
	"github.com/headgate/headgate/server/gateway"
	"github.com/headgate/headgate/server/telemetry"
)

// Status returns the state of the node for /readyz and the console.
func (n *Node) Status() telemetry.Status {
	state := n.state.Load().(telemetry.State)
	if state == telemetry.Ready && n.gateway != nil && !n.gateway.Ready() {
		state = telemetry.Starting
	}
	s := telemetry.Status{State: state, Version: n.options.Version, Started: n.started, Listeners: n.Listeners()}
	s.EnforcementOff = n.enforcement.activeSuspensions()
	s.Store, s.Degraded = n.stores.Status()
	s.Fleet = n.fleet.Report()
	s.Degraded = s.Degraded || s.Fleet.Isolated()
	if n.fileRules != nil {
		s.Rules = n.fileRules.status()
	} else {
		s.Rules = n.followedRules.status()
		follow := s.Rules.Follow
		s.Degraded = s.Degraded || follow.FromDisk || follow.Unreachable != "" || follow.DiskError != ""
		if s.State == telemetry.Ready && !n.followedRules.ready() {
			s.State = telemetry.Starting // not ready: without rules, no request is limited
		}
	}
	if s.Database = n.rulesService.databaseStatus(); s.Database != nil {
		s.Degraded = s.Degraded || !s.Database.Writable
	}
	if n.jwtVerifier != nil {
		if err := n.jwtVerifier.Err(); err != nil {
			s.Identity.Error = err.Error()
		}
	}
	s.Degraded = s.Degraded || s.Rules.Error != "" || s.Identity.Error != ""
	if warning := proxyWarning(n.identity); warning != "" {
		s.Warnings = append(s.Warnings, warning)
	}
	if n.demoTraffic != nil && n.demoTraffic.Allowed() {
		s.DemoTraffic = "off"
		if n.demoTraffic.On() {
			s.DemoTraffic = "on"
		}
	}
	if n.gateway != nil {
		s.Upstreams = upstreamStatus(n.gateway)
	}
	return s
}

// upstreamStatus returns the state of each upstream of the gateway.
func upstreamStatus(g *gateway.Gateway) []telemetry.UpstreamStatus {
	var list []telemetry.UpstreamStatus
	for _, u := range g.Stats().Upstreams {
		status := telemetry.UpstreamStatus{Route: u.Route, URL: u.URL, Up: u.Up}
		if !u.Up && u.LastErr != nil {
			status.Error = u.LastErr.Error()
		}
		list = append(list, status)
	}
	return list
}

package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/internal/problem"
)

// An enforcementRequest is the body of enforcement:on and enforcement:off.
type enforcementRequest struct {
	Rule          string `field:"rule"` // empty for all rules
	AllNamespaces bool   `field:"all_namespaces"`
	For           string `field:"for"` // how long enforcement stays off, such as "30m"
}

// getEnforcement serves GET /v1/enforcement.
func (s *Server) getEnforcement(c *call.Call) error {
	names, err := s.readNamespaces(c)
	if err != nil {
		return err
	}
	return s.respondEnforcement(c, names)
}

// enforcementOff serves POST /v1/enforcement:off.
func (s *Server) enforcementOff(c *call.Call) error {
	var request enforcementRequest
	if err := c.ReadJSON(&request); err != nil {
		return err
	}
	duration, err := rules.ParseDuration(request.For)
	if err != nil {
		duration = 0 // CheckSuspensionTime rejects it
	}
	if want := control.CheckSuspensionTime(duration); want != "" {
		return problem.InvalidField("for", rules.Quote(request.For), want)
	}
	names, err := s.enforcementTargets(c, &request)
	if err != nil {
		return err
	}
	now := s.config.Now().UTC().Truncate(time.Second)
	suspension := control.Suspension{
		Rule: request.Rule, Since: now, Expires: now.Add(duration), Note: c.Query.Get("note"), By: c.Caller.ID,
	}
	for _, name := range names {
		if err := s.editor.Suspend(c.R.Context(), c.Change(name, "enforcement.off"), &suspension); err != nil {
			return err
		}
	}
	return s.respondEnforcement(c, names)
}

// enforcementOn serves POST /v1/enforcement:on. Without a rule, it ends all suspensions of the namespace.
func (s *Server) enforcementOn(c *call.Call) error {
	var request enforcementRequest
	if err := c.ReadJSON(&request); err != nil {
		return err
	}
	if request.For != "" {
		return problem.InvalidField("for", rules.Quote(request.For), "nothing: enforcement stays on")
	}
	names, err := s.enforcementTargets(c, &request)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.editor.EndSuspensions(c.R.Context(), c.Change(name, "enforcement.on"), request.Rule); err != nil {
			return err
		}
	}
	return s.respondEnforcement(c, names)
}

// enforcementTargets returns the namespaces of a request, and checks that its rule exists.
func (s *Server) enforcementTargets(c *call.Call, request *enforcementRequest) ([]string, error) {
	if request.Rule == "" {
		return s.enforcementScope(c, request.AllNamespaces)
	}
	if request.AllNamespaces {
		return nil, problem.InvalidField("all_namespaces", "true", "no rule, or one namespace")
	}
	_, err := s.config.DB.Get(c.R.Context(), c.Namespace, control.KindRule, request.Rule)
	if errors.Is(err, control.ErrNotFound) {
		return nil, problem.New(http.StatusNotFound, "There is no rule %s in the namespace %s.",
			rules.Quote(request.Rule), c.Namespace)
	}
	return []string{c.Namespace}, err
}

// enforcementScope returns the namespaces of a change: that of the call, or all.
func (s *Server) enforcementScope(c *call.Call, all bool) ([]string, error) {
	if !all {
		return []string{c.Namespace}, nil
	}
	if !c.Caller.CoversAll() {
		return nil, problem.New(http.StatusForbidden, "The token %s is not valid for all namespaces.", c.Caller.ID)
	}
	stored, err := s.config.DB.Namespaces(c.R.Context())
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range stored {
		if name != control.SystemNamespace {
			names = append(names, name)
		}
	}
	return names, nil
}

// respondEnforcement responds with the suspensions in force in the given namespaces: first those of the rules service,
// then those of single nodes.
func (s *Server) respondEnforcement(c *call.Call, names []string) error {
	response := struct {
		Off []control.Suspension `json:"off"`
	}{[]control.Suspension{}}
	now := s.config.Now()
	for _, name := range names {
		list, err := s.editor.Suspensions(c.R.Context(), name)
		if err != nil {
			return err
		}
		for i := range list {
			if list[i].Expires.After(now) {
				list[i].Namespace = name
				response.Off = append(response.Off, list[i])
			}
		}
	}
	for _, name := range names {
		list, err := s.nodeSuspensions(c.R.Context(), name, now)
		if err != nil {
			return err
		}
		response.Off = append(response.Off, list...)
	}
	return c.Respond(http.StatusOK, response)
}

// nodeSuspensions returns the suspensions that nodes of a namespace have reported as created on themselves. A node that
// no longer sends heartbeats may be unable to reach the rules service, and still not enforce its rules.
func (s *Server) nodeSuspensions(ctx context.Context, namespace string, now time.Time) ([]control.Suspension, error) {
	nodes, err := s.nodes.List(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var list []control.Suspension
	for i := range nodes {
		for _, suspension := range nodes[i].EnforcementOff {
			if suspension.Expires.After(now) {
				suspension.Namespace, suspension.Node, suspension.Scope = namespace, nodes[i].ID, control.ScopeNode
				list = append(list, suspension)
			}
		}
	}
	return list, nil
}

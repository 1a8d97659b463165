package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/problem"
)

// An enforcementRequest says which rules to enforce or not. For is only for turning enforcement off.
type enforcementRequest struct {
	Rule          string `field:"rule"`
	AllNamespaces bool   `field:"all_namespaces"`
	For           string `field:"for"`
}

// A suspendedRules are rules of one namespace that are not enforced for a time. Without a rule, it is all of them.
type suspendedRules struct {
	Namespace string `json:"namespace"`
	control.Suspension
}

// getEnforcement serves GET /v1/enforcement.
func (s *Server) getEnforcement(c *call) error {
	all, err := c.flag("all_namespaces")
	if err != nil {
		return err
	}
	names, err := s.enforcementScope(c, all)
	if err != nil {
		return err
	}
	return s.respondEnforcement(c, names)
}

// enforcementOff serves POST /v1/enforcement:off.
func (s *Server) enforcementOff(c *call) error {
	var request enforcementRequest
	if err := c.readJSON(&request); err != nil {
		return err
	}
	length, err := rules.ParseDuration(request.For)
	if err != nil {
		length = 0
	}
	if want := control.CheckSuspensionTime(length); want != "" {
		return problem.InvalidField("for", rules.Quote(request.For), want)
	}
	names, err := s.enforcementTargets(c, &request)
	if err != nil {
		return err
	}
	now := s.config.Now().UTC().Truncate(time.Second)
	suspension := control.Suspension{
		Rule: request.Rule, Since: now, Expires: now.Add(length), Note: c.query.Get("note"), By: c.caller.ID,
	}
	body, err := suspension.Body()
	if err != nil {
		return err
	}
	for _, name := range names {
		change := c.change(name, "enforcement.off")
		change.Ops = []control.Op{{
			Kind: control.KindSuspension, ID: control.SuspensionID(request.Rule), Base: control.Any, Body: body,
		}}
		if err := s.commitEnforcement(c.r.Context(), change); err != nil {
			return err
		}
	}
	return s.respondEnforcement(c, names)
}

// enforcementOn serves POST /v1/enforcement:on. Without a rule, it ends all suspensions of the namespace.
func (s *Server) enforcementOn(c *call) error {
	var request enforcementRequest
	if err := c.readJSON(&request); err != nil {
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
		if err := s.endSuspensions(c, name, request.Rule); err != nil {
			return err
		}
	}
	return s.respondEnforcement(c, names)
}

// endSuspensions ends the suspension of a rule, or all of the namespace if it is empty.
func (s *Server) endSuspensions(c *call, namespace, rule string) error {
	for attempt := 1; ; attempt++ {
		list, err := s.suspensions(c.r.Context(), namespace)
		if err != nil {
			return err
		}
		change := c.change(namespace, "enforcement.on")
		for i := range list {
			if rule != "" && list[i].Rule == "" && list[i].Expires.After(s.config.Now()) {
				return problem.New(http.StatusConflict,
					"No rule of the namespace %s is enforced until %s. Turn on the enforcement of all its rules.",
					namespace, list[i].Expires.Format(time.RFC3339))
			}
			if rule == "" || rule == list[i].Rule {
				change.Ops = append(change.Ops, control.Op{
					Kind: control.KindSuspension, ID: control.SuspensionID(list[i].Rule), Base: control.Any,
				})
			}
		}
		if len(change.Ops) == 0 {
			return nil
		}
		err = s.commitEnforcement(c.r.Context(), change)
		if !errors.Is(err, control.ErrConflict) || attempt == endAttempts {
			return err
		}
	}
}

// endAttempts is how often endSuspensions tries: another call may delete a suspension meanwhile.
const endAttempts = 3

// enforcementTargets returns the namespaces of a request, and checks that its rule exists.
func (s *Server) enforcementTargets(c *call, request *enforcementRequest) ([]string, error) {
	if request.Rule == "" {
		return s.enforcementScope(c, request.AllNamespaces)
	}
	if request.AllNamespaces {
		return nil, problem.InvalidField("all_namespaces", "true", "no rule, or one namespace")
	}
	_, err := s.config.DB.Get(c.r.Context(), c.namespace, control.KindRule, request.Rule)
	if errors.Is(err, control.ErrNotFound) {
		return nil, problem.New(http.StatusNotFound, "There is no rule %s in the namespace %s.",
			rules.Quote(request.Rule), c.namespace)
	}
	return []string{c.namespace}, err
}

// enforcementScope returns the namespace of the call, or all namespaces.
func (s *Server) enforcementScope(c *call, all bool) ([]string, error) {
	if !all {
		return []string{c.namespace}, nil
	}
	if !c.caller.CoversAll() {
		return nil, problem.New(http.StatusForbidden, "The token %s is not for all namespaces.", c.caller.ID)
	}
	stored, err := s.config.DB.Namespaces(c.r.Context())
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

func (s *Server) commitEnforcement(ctx context.Context, change *control.Change) error {
	if err := s.config.DB.Commit(ctx, change); err != nil {
		return err
	}
	s.committed(change)
	return nil
}

// maxSuspensions bounds the suspensions that are read at once. There is at most one per rule.
const maxSuspensions = 1000

// suspensions returns the suspensions of a namespace, also expired ones.
func (s *Server) suspensions(ctx context.Context, namespace string) ([]control.Suspension, error) {
	var list []control.Suspension
	q := control.Query{Namespace: namespace, Kind: control.KindSuspension, Limit: maxSuspensions}
	for object, err := range control.All(ctx, s.config.DB, q) {
		if err != nil {
			return nil, err
		}
		suspension, err := control.ParseSuspension(object.ID, object.Body)
		if err != nil {
			return nil, err
		}
		list = append(list, suspension)
	}
	return list, nil
}

// respondEnforcement sends the suspensions in force in some namespaces.
func (s *Server) respondEnforcement(c *call, names []string) error {
	response := struct {
		Off []suspendedRules `json:"off"`
	}{[]suspendedRules{}}
	now := s.config.Now()
	for _, name := range names {
		list, err := s.suspensions(c.r.Context(), name)
		if err != nil {
			return err
		}
		for _, suspension := range list {
			if suspension.Expires.After(now) {
				response.Off = append(response.Off, suspendedRules{name, suspension})
			}
		}
	}
	return c.respond(http.StatusOK, response)
}

// deleteExpiredSuspensions deletes the suspensions of all namespaces that expired an hour ago: nodes whose clocks are
// behind may still use them.
func (s *Server) deleteExpiredSuspensions(ctx context.Context) error {
	names, err := s.config.DB.Namespaces(ctx)
	if err != nil {
		return err
	}
	before := s.config.Now().Add(-time.Hour)
	for _, name := range names {
		change := &control.Change{
			Namespace: name, Actor: control.SystemActor, Action: "enforcement.expire", Base: control.Any,
		}
		list, err := s.suspensions(ctx, name)
		if err != nil {
			return err
		}
		for i := range list {
			if list[i].Expires.Before(before) {
				change.Ops = append(change.Ops, control.Op{
					Kind: control.KindSuspension, ID: control.SuspensionID(list[i].Rule), Base: control.Any,
				})
			}
		}
		if len(change.Ops) == 0 {
			continue
		}
		if err := s.commitEnforcement(ctx, change); err != nil && !errors.Is(err, control.ErrConflict) {
			return err
		}
	}
	return nil
}

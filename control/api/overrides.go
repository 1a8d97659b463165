package api

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules"
)

// sweepOverrides removes those that were over an hour ago: until then nodes whose clocks are behind may still look.
func (s *Server) sweepOverrides(ctx context.Context) error {
	names, err := s.config.DB.Namespaces(ctx)
	if err != nil {
		return err
	}
	var errs []error
	over := s.config.Now().Add(-time.Hour)
	for _, name := range names {
		if ended, err := s.overridesBefore(ctx, name, over); err != nil || len(ended) == 0 {
			errs = append(errs, err)
			continue
		}
		change := &control.Change{Namespace: name, Actor: systemActor, Action: "overrides.expire"}
		_, err := s.commit(ctx, request{change: change, edits: func(ctx context.Context, _ *space) ([]edit, error) {
			return s.overridesBefore(ctx, name, over)
		}})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// overridesBefore returns the end of all overrides that were over at a time.
func (s *Server) overridesBefore(ctx context.Context, namespace string, over time.Time) ([]edit, error) {
	var edits []edit
	q := control.Query{Namespace: namespace, Kind: control.KindOverride, Limit: 1000}
	for {
		objects, err := s.config.DB.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range objects {
			o, err := parseOverride(objects[i].Body)
			if err != nil {
				return nil, err
			}
			if o.Expires.Before(over) {
				edits = append(edits, edit{kind: control.KindOverride, id: o.ID, base: objects[i].Revision})
			}
		}
		if len(objects) < q.Limit {
			return edits, nil
		}
		q.AfterNamespace, q.AfterID = namespace, objects[len(objects)-1].ID
	}
}

// idle says why an override would do nothing with the rules that there are, nothing if it does something.
func (sp *space) idle(o *control.Override) string {
	known := map[headgate.Attribute]bool{}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(o.Client)) {
		a, err := headgate.ParseAttribute(name)
		if err != nil {
			continue // it was refused
		}
		names = append(names, name)
		known[a] = true
		// Whoever is registered is meant by whatever names him.
		if c, ok := sp.clients.Lookup(a, o.Client[name]); ok {
			for _, t := range c.Attributes {
				known[t.Attribute] = true
			}
			known[headgate.Attribute{Kind: headgate.AttrUser}] = known[headgate.Attribute{Kind: headgate.AttrUser}] || len(c.Attributes) == 0
		}
	}
	for _, r := range sp.set.Rules() {
		if o.Rule != "" && o.Rule != r.ID {
			continue
		}
		byAddress := r.Fallback == rules.FallbackIP && known[headgate.Attribute{Kind: headgate.AttrIP}]
		if len(r.Key) > 0 && (byAddress || slices.ContainsFunc(r.Key, func(a headgate.Attribute) bool { return known[a] })) {
			return ""
		}
	}
	of := "no rule counts"
	if o.Rule != "" {
		of = "the rule " + o.Rule + " does not count"
	}
	return of + " by " + strings.Join(names, " or ") + ": the override does nothing until one does"
}

package api

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate/control"
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

package edit

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control"
)

// expiryDelay is how long expired overrides and suspensions are kept, for nodes whose clocks are behind.
const expiryDelay = time.Hour

// DeleteExpiredOverrides deletes the overrides of all namespaces that expired an hour ago.
func (e *Editor) DeleteExpiredOverrides(ctx context.Context) error {
	names, err := e.options.DB.Namespaces(ctx)
	if err != nil {
		return err
	}
	var errs []error
	p := expirePlan{e.options.Now().Add(-expiryDelay)}
	for _, name := range names {
		// Check first: commit would load the whole namespace, even if no override has expired.
		expired, err := p.edits(ctx, &namespace{name: name, db: e.options.DB})
		if err == nil && len(expired) > 0 {
			change := &control.Change{Namespace: name, Actor: control.SystemActor, Action: "overrides.expire"}
			_, err = e.commit(ctx, change, p, CommitOptions{})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// An expirePlan deletes the overrides that expired before a time.
type expirePlan struct{ before time.Time }

func (p expirePlan) edits(ctx context.Context, ns *namespace) ([]Edit, error) {
	var edits []Edit
	q := control.Query{Namespace: ns.name, Kind: control.KindOverride, Limit: 1000}
	for object, err := range control.All(ctx, ns.db, q) {
		if err != nil {
			return nil, err
		}
		o, err := control.ParseOverride("body.json", object.Body, time.Time{})
		if err != nil {
			return nil, err
		}
		if o.Expires.Before(p.before) {
			edits = append(edits, deletion(control.KindOverride, o.ID, object.Revision))
		}
	}
	return edits, nil
}

// unusedOverrideWarning returns why an override has no effect with the current rules, or "" if it has one.
func (ns *namespace) unusedOverrideWarning(o *control.Override) string {
	known := map[headgate.Attribute]bool{} // attributes of the override's client
	var names []string
	user := headgate.Attribute{Kind: headgate.AttrUser}
	for _, name := range slices.Sorted(maps.Keys(o.Client)) {
		a, err := headgate.ParseAttribute(name)
		if err != nil {
			continue // Parse has refused it
		}
		names = append(names, name)
		known[a] = true
		// Any attribute of a registered client identifies it.
		if c, ok := ns.clients.Lookup(a, o.Client[name]); ok {
			for _, t := range c.Attributes {
				known[t.Attribute] = true
			}
			known[user] = known[user] || len(c.Attributes) == 0
		}
	}
	for _, r := range ns.set.Rules() {
		if o.Rule != "" && o.Rule != r.ID {
			continue
		}
		countsByIP := r.Fallback == rules.FallbackIP && known[headgate.Attribute{Kind: headgate.AttrIP}]
		countsByKey := slices.ContainsFunc(r.Key, func(a headgate.Attribute) bool { return known[a] })
		if len(r.Key) > 0 && (countsByIP || countsByKey) {
			return ""
		}
	}
	subject := "no rule counts"
	if o.Rule != "" {
		subject = "the rule " + o.Rule + " does not count"
	}
	return subject + " by " + strings.Join(names, " or ") + ": the override has no effect until one does"
}

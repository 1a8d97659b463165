package node

import (
	"context"
	"fmt"
	"strings"

	_ "embed"

	"github.com/headgate/headgate/server/cmd/headgate/internal/demo"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api"
)

//go:embed demo.yaml
var demoRules []byte

// demoRule is the ID of the demo rule that the banner describes. The IDs of all demo rules begin with demoPrefix.
const (
	demoRule   = "demo-per-address"
	demoPrefix = "demo-"
)

// demoActor is the actor of changes of demo rules in the history.
const demoActor = "headgate"

// demoRemoval is the action of a change that removes demo rules.
const demoRemoval = "rules.delete"

// trafficRule is the ID of the demo rule that limits the clients of the demo traffic.
const trafficRule = "demo-per-client"

// openDemoTraffic creates the demo traffic if the gateway is in front of the built-in upstream.
func (n *Node) openDemoTraffic() {
	url := n.gatewayURL()
	if n.demo == nil || n.followedRules == nil || !strings.HasPrefix(url, "http://") {
		return
	}
	n.demoTraffic = &demo.Traffic{
		URL: strings.TrimSuffix(url, "/"), Logger: n.log,
		// Under other rules, the demo traffic would consume units that requests of users on this host need.
		Allowed: func() bool { return n.engine.Rules().Rule(trafficRule) != nil },
	}
	n.demoTraffic.Set(n.config.WantsDemoTraffic())
}

// demoSwitch returns the switch of the demo traffic, or nil if there is none.
func (n *Node) demoSwitch() api.Toggle {
	if n.demoTraffic == nil {
		return nil
	}
	return n.demoTraffic
}

// demoRulesRemoved reports whether there are no rules and removeDemoRules has deleted the last ones.
func (n *Node) demoRulesRemoved(ctx context.Context) (bool, error) {
	db, namespace := n.rulesService.db, n.config.ControlNamespace()
	count, err := db.Count(ctx, control.Query{Namespace: namespace, Kind: control.KindRule})
	if err != nil || count > 0 {
		return false, err
	}
	last, err := db.Log(ctx, control.LogQuery{Namespace: namespace, Kind: control.KindRule, Newest: true, Limit: 1})
	if err != nil || len(last) == 0 {
		return false, err
	}
	return last[0].Actor == demoActor && last[0].Action == demoRemoval, nil
}

// addDemoRules writes the rules for the built-in service to a database without rules.
func (n *Node) addDemoRules(ctx context.Context) error {
	s := n.rulesService
	if _, err := s.api.Load().Apply(ctx, n.config.ControlNamespace(), demoActor, "demo.yaml", demoRules); err != nil {
		return fmt.Errorf("demo rules: %w", err)
	}
	n.log.Info("demo rules for the built-in service added", "db", s.db.Name())
	return nil
}

// removeDemoRules deletes the demo rules that an earlier start without an upstream has added, because only the user's
// rules may limit requests to the user's service. It keeps demo rules that a user has changed.
func (n *Node) removeDemoRules(ctx context.Context) error {
	db, namespace := n.rulesService.db, n.config.ControlNamespace()
	found, err := db.List(ctx, control.Query{
		Namespace: namespace, Kind: control.KindRule, AfterNamespace: namespace,
		AfterID: demoPrefix, Limit: 100,
	})
	if err != nil {
		return fmt.Errorf("look for demo rules: %w", err)
	}
	change := &control.Change{
		Namespace: namespace, Actor: demoActor, Action: demoRemoval, Base: control.AnyRevision,
		Note: "demo rules are for the built-in service only",
	}
	for i := range found {
		if o := &found[i]; o.By == demoActor && strings.HasPrefix(o.ID, demoPrefix) {
			change.Ops = append(change.Ops, control.Op{Kind: control.KindRule, ID: o.ID, Base: o.Revision})
		}
	}
	if len(change.Ops) == 0 {
		return nil
	}
	if err := db.Commit(ctx, change); err != nil {
		return fmt.Errorf("remove demo rules: %w", err)
	}
	n.log.Info("demo rules removed: they are for the built-in service only", "db", db.Name(), "rules", len(change.Ops))
	return nil
}

package registry_test

import (
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/registry"
)

// packageExample is the example of the package comment.
func packageExample() error {
	acme := rules.Client{ID: "acme", Limits: []rules.Limit{{Limit: headgate.PerSecond(100)}}}
	clients, err := registry.New(acme)
	if err != nil {
		return err
	}
	if found := clients.Find(headgate.Attribute{Kind: headgate.AttrUser}, "acme"); !found.Absent() {
		limits, _, _ := found.Grants("search-per-user")
		fmt.Println(limits[0].Limit)
	}
	return nil
}

var _ = packageExample

// Package registry stores registered clients, which have their own limits or properties.
//
//	acme := rules.Client{ID: "acme", Limits: []rules.Limit{{Limit: headgate.PerSecond(100)}}}
//	clients, err := registry.New(acme)
//	if err != nil {
//		return err
//	}
//	if found := clients.Find(headgate.Attribute{Kind: headgate.AttrUser}, "acme"); !found.Absent() {
//		limits, _, _ := found.Grants("search-per-user")
//		fmt.Println(limits[0].Limit)
//	}
//
// A [Registry] finds a client by the value of an attribute, such as a user or an API key. Clients can be added,
// replaced and removed while other goroutines look them up. A match.Set uses the clients of a registry.
package registry

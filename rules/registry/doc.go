// Package registry holds registered clients: clients with limits or properties of their own.
//
// A [Registry] finds a client by the value of an attribute, such as a user or an API key. Clients can be added,
// replaced and removed while other goroutines look them up. A match.Set uses the clients of a registry.
package registry

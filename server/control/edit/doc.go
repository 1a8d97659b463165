// Package edit changes the rules, clients and overrides of the rules service.
//
// An Editor keeps the edited namespaces in memory, with compiled rules and registered clients. It checks each change
// against the whole namespace, so that all rules in the database compile. If another process changes the namespace at
// the same time, the Editor computes the change again. The time to change one client does not depend on the number of
// clients.
package edit

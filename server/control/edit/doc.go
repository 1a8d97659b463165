// Package edit changes the rules, clients and overrides of the rules service.
//
// An Editor keeps the edited namespaces in memory, with compiled rules and registered clients. It checks each change
// against the whole namespace, and commits it only if nobody else has changed the namespace meanwhile; otherwise it
// computes the change again. So everything in the database compiles, and a change of one client takes the same time
// however many clients there are.
package edit

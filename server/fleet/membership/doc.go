// Package membership counts the nodes of a fleet by a list that they keep in a store, such as Redis.
package membership

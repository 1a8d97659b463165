// Package membership counts the nodes of a fleet. Each node enters itself in a list in a store, such as Redis.
package membership

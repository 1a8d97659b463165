// Package top shows the traffic of a fleet in a terminal: rates by rule, the clients with the most requests or denials,
// and the nodes.
package top

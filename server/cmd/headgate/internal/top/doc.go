// Package top shows the traffic of a fleet in a terminal: rates by rule, the clients that stand out, and the nodes.
package top

// Package node creates and runs a Headgate process from its configuration. A [Node] has stores, rules, an engine, a
// gateway, a decision service and an admin listener. "headgate serve" runs one Node.
package node

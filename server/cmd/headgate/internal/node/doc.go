// Package node builds a Headgate process from its configuration and runs it: stores, rules, engine, gateway, decision
// service and admin listener. "headgate serve" runs one Node.
package node

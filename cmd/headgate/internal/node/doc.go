// Package node puts a Headgate together from its configuration and runs it: stores, rules, engine, gateway and what
// operators see. It is what "headgate serve" is.
package node

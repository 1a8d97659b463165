// Package config says how a node is to run: what the command line, the environment and a file say, in that order, and what
// holds if none of them does.
package config

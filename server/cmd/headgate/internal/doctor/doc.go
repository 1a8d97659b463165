// Package doctor checks whether a node with a given configuration can run on this host, and says how to fix the
// problems.
package doctor

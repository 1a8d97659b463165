// Package doctor checks whether a node with a configuration can run here, and says what to do where it cannot.
package doctor

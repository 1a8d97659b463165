// Package plan calculates how many nodes and Redis shards a load needs, line by line, from constants that say where
// they come from.
package plan

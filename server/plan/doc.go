// Package plan calculates how many nodes and Redis shards a given load needs. A plan shows each step of the
// calculation, and the source of each constant.
package plan

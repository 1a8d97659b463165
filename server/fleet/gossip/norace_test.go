//go:build !race

package gossip

const fewer = 1

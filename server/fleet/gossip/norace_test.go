//go:build !race

package gossip

const racing = false

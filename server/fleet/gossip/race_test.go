//go:build race

package gossip

// fewer divides the number of repetitions of simulations. They run in one goroutine, without races to find.
const fewer = 10

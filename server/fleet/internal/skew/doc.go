// Package skew estimates how far another clock is ahead of this node's clock.
package skew

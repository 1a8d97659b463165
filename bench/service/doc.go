// Package service is the part "service" of the benchmark: the protocols of the decision service, each beside the best
// that the protocol can do.
package service

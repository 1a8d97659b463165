//go:build race

package fleet

const leaseRaceDetected = true

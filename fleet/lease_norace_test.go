//go:build !race

package fleet

const leaseRaceDetected = false

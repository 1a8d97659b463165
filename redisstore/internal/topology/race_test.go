//go:build race

package topology

const raceDetected = true

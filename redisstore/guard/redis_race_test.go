//go:build race

package guard_test

const raceDetected = true

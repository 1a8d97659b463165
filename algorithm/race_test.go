//go:build race

package algorithm_test

const raceDetected = true

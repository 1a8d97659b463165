//go:build !race

package redisstore

const raceDetected = false

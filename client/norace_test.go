//go:build !race

package client

const slower = 1

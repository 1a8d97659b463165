//go:build !race

package memstore

const slower = 1

// Package sharednotes stores in memory the notes that nodes exchange. It runs the same steps as the script of package
// fleetredis.
package sharednotes

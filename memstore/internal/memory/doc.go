// Package memory limits how much memory a store uses, and tells the system how to provide it.
package memory

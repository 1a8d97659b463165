// Package rules is placeholder.
package rules

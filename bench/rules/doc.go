// Package rules is the part "rules" of the benchmark: matching requests to rules, and deciding them.
package rules

// Package tally describes what nodes report to each other: how much they consumed of each key.
package tally

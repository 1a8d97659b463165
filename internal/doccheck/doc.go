// Package doccheck holds the tests that keep README.md and the documents under docs true: their programs compile, their
// worked examples are cases that every store replays, their figures are what the code gives.
package doccheck

// Package doccheck tests README.md and the documents under docs: their programs compile, their worked examples are
// cases that every store replays, and their figures match the code.
package doccheck

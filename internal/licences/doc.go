// Package licences tests that every module in the program may be distributed with it: its licence is one of a short
// list.
package licences

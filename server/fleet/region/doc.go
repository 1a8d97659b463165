// Package region shares limits between regions: each region decides by its own store, and exchanges with other regions
// what was consumed.
package region

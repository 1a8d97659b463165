// Package region shares limits between regions. Each region decides by its own store, and exchanges its consumption
// with the other regions.
package region

// Package region shares limits between regions: each region decides by its own store, and exchanges its consumption
// with other regions.
package region

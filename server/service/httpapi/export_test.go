package httpapi

import (
	"maps"
	"slices"
)

// OpenAPI returns the description of the API.
func OpenAPI() []byte { return openAPI }

// Paths returns the paths that this package serves, sorted.
func Paths() []string { return slices.Sorted(maps.Keys(routes)) }

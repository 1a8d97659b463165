// Package exchange has the code that fleet/async and fleet/region share. Both send and read notes through a
// fleet.Exchange; a note is the encoded consumption of one key by one node or region.
package exchange

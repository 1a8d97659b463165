// Package async shares limits between nodes. Each node decides by its own counters. Several times per interval it
// writes its consumption to an exchange, such as Redis, and reads the consumption of its peers from there.
package async

// Package fleet holds one limit across hosts without asking a server for every decision: by leases, by telling each other
// through Redis, or by telling each other without it.
package fleet

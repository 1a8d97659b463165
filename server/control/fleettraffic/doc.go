// Package fleettraffic merges the traffic statistics of the nodes of each namespace, and keeps them in the database of
// the rules service: fleet totals by the minute, and clients by the hour, for 7 days.
package fleettraffic

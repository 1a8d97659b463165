// Package fleettraffic has the traffic statistics of all nodes together, for the rules service. Nodes report their
// counts of requests and denials to it. It adds them up, and stores the totals of each rule per minute and the counts
// of clients per hour in the database of the rules service, for 7 days.
package fleettraffic

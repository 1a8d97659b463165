// Package alerts evaluates conditions that need an operator. It uses the statistics that nodes report to the rules service.
// The conditions are the same as those of the alerting rules for Prometheus in deploy/prometheus.
//
// A Book has the alerts of one namespace. It is given the current findings every few seconds, fires an alert once its
// condition has held for the condition's time, and resolves it once it no longer holds. Each change is reported once.
package alerts

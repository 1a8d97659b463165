// Package alerts evaluates conditions that need an operator, from what nodes report to the rules service: the same ones
// as the alerting rules for Prometheus in deploy/prometheus.
//
// A Book has the alerts of one namespace. It is given the current findings every few seconds, fires an alert once its
// condition has held for the condition's time, and resolves it once it no longer holds. Each change is reported once.
package alerts

// Package alerts fires and resolves alerts for operators, by the statistics that nodes report to the rules service. The
// conditions are the same as in the alerting rules for Prometheus in deploy/prometheus.
//
// Every few seconds, a [Service] evaluates the conditions with [Find], and passes the findings to the [Book] of each
// namespace. The Book fires an alert when its condition has held for some time, and resolves it when the condition no
// longer holds. Webhooks are notified of both.
package alerts

package alerts

import (
	"strings"
	"time"
)

// A Severity is the urgency of an alert.
type Severity string

// The severities.
const (
	Critical Severity = "critical"
	Warning  Severity = "warning"
)

// A Condition is a kind of alert.
type Condition struct {
	// Name identifies it, such as failing_open.
	Name     string
	Severity Severity
	// For is how long the condition must hold before an alert fires.
	For time.Duration
	// Runbook is the path of a page with instructions for operators.
	Runbook string
}

// The conditions. Their thresholds and times are the same as in deploy/prometheus.
var (
	FailingOpen         = condition("failing_open", Critical, 30*time.Second)
	BreakerOpen         = condition("breaker_open", Critical, 30*time.Second)
	StoreSlow           = condition("store_slow", Warning, 2*time.Minute)
	RulesStale          = condition("rules_stale", Warning, time.Minute)
	NodeSilent          = condition("node_silent", Critical, time.Minute)
	SyncLag             = condition("sync_lag", Warning, time.Minute)
	DenialSpike         = condition("denial_spike", Warning, 5*time.Minute)
	MemoryNearCap       = condition("memory_near_cap", Warning, 5*time.Minute)
	HotShard            = condition("hot_shard", Warning, 5*time.Minute)
	CertificateExpiring = condition("certificate_expiring", Warning, 5*time.Minute)
)

// Conditions returns all conditions.
func Conditions() []*Condition {
	return []*Condition{
		FailingOpen, BreakerOpen, StoreSlow, RulesStale, NodeSilent, SyncLag, DenialSpike, MemoryNearCap, HotShard,
		CertificateExpiring,
	}
}

func condition(name string, severity Severity, after time.Duration) *Condition {
	page := "docs/runbooks/" + strings.ReplaceAll(name, "_", "-") + ".md"
	return &Condition{Name: name, Severity: severity, For: after, Runbook: page}
}

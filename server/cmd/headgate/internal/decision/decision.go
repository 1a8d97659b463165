// Package decision defines the output of "headgate check" and "headgate explain". It converts decisions of an engine in
// this process or of a rules service.
package decision

import (
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
)

// A Decision is the decision on one request.
type Decision struct {
	Verdict      string          `json:"verdict"`
	Passed       bool            `json:"passed"`
	Reason       string          `json:"reason,omitempty"`
	Rule         string          `json:"ruleId,omitempty"`
	Status       int             `json:"status,omitempty"`
	Limit        int64           `json:"limit"`
	Remaining    int64           `json:"remainingRequests"`
	RetryAfterMs int64           `json:"retryAfterMs"` // -1: never
	ResetMs      int64           `json:"resetMs"`
	DelayMs      int64           `json:"delayMs"`
	Degraded     bool            `json:"degraded"`
	Limits       []LimitDecision `json:"limits"`

	limitText         string // the tightest limit in the syntax of rules
	limitAllowed      bool   // the tightest limit allows the request
	retryAfter, delay time.Duration
	reset             time.Duration
}

// A LimitDecision is the decision of one limit.
type LimitDecision struct {
	Rule         string `json:"ruleId"`
	Name         string `json:"name"`
	Limit        string `json:"limit"`
	Allowed      bool   `json:"allowed"`
	Asked        bool   `json:"asked"` // the limit was checked
	Shadow       bool   `json:"shadow,omitempty"`
	Remaining    *int64 `json:"remaining"` // null if it is not known
	RetryAfterMs int64  `json:"retryAfterMs"`
}

// New converts a verdict of the engine.
func New(v *engine.Verdict) Decision {
	d := Decision{
		Verdict: v.Action.String(), Passed: v.Action.Passes(), Status: v.Status, Degraded: v.Degraded,
		Limit: v.Decision.Limit, Remaining: v.Decision.Remaining, RetryAfterMs: toMillis(v.RetryAfter),
		ResetMs: toMillis(v.Decision.ResetAfter), DelayMs: toMillis(v.Delay), Limits: []LimitDecision{},
		retryAfter: v.RetryAfter, delay: v.Delay, reset: v.Decision.ResetAfter,
	}
	if v.Reason != engine.None {
		d.Reason = v.Reason.String()
	}
	if v.Rule != nil {
		d.Rule = v.Rule.ID
	}
	for _, a := range v.Limits() {
		d.Limits = append(d.Limits, newLimit(&a))
		if a.Rule == v.Rule && a.Decision.Remaining == v.Decision.Remaining && d.limitText == "" && !a.Shadow {
			d.limitText = a.Limit.String()
		}
	}
	return d
}

func newLimit(a *engine.Applied) LimitDecision {
	l := LimitDecision{
		Rule: a.Rule.ID, Name: a.Name, Limit: a.Limit.String(), Allowed: a.Decision.Allowed, Asked: a.Decision.Limit != 0,
		Shadow: a.Shadow, RetryAfterMs: toMillis(a.Decision.RetryAfter),
	}
	if !a.Decision.Degraded {
		l.Remaining = &a.Decision.Remaining
	}
	return l
}

// remainingText returns the remaining units for a table.
func (l *LimitDecision) remainingText() string {
	if l.Remaining == nil {
		return "unknown"
	}
	return strconv.FormatInt(*l.Remaining, 10)
}

// Table returns the header and rows of a table with a row for each decision.
func Table(decisions []Decision) (header []string, rows [][]string) {
	for i := range decisions {
		d := &decisions[i]
		verdict, remaining := d.Verdict, "-"
		if d.Reason != "" {
			verdict += " (" + d.Reason + ")"
		}
		if d.delay > 0 {
			verdict += " " + output.Duration(d.delay)
		}
		if d.Degraded {
			verdict += " degraded"
		}
		if d.Limit > 0 {
			remaining = strconv.FormatInt(d.Remaining, 10)
		}
		rows = append(rows, []string{
			strconv.Itoa(i + 1), verdict, output.OrDash(d.Rule), output.OrDash(d.limitText), remaining,
			output.Duration(d.retryAfter), output.Duration(d.reset),
		})
	}
	return []string{"#", "VERDICT", "RULE", "LIMIT", "REMAINING", "RETRY AFTER", "FULL AFTER"}, rows
}

// toMillis returns whole milliseconds, rounded up, or -1 for never.
func toMillis(d time.Duration) int64 {
	if d == headgate.Never {
		return -1
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// fromMillis is the inverse of toMillis.
func fromMillis(ms int64) time.Duration {
	if ms < 0 {
		return headgate.Never
	}
	return time.Duration(ms) * time.Millisecond
}

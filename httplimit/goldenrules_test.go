package httplimit_test

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/rules"
)

// goldenRules are the rules of the conversations in testdata, by the name of the file.
var goldenRules = map[string][]rules.Rule{
	"allowed":     {{ID: "per-client", Key: byIP, Limits: enginetest.Limits("10/m burst 20")}},
	"concurrency": {{ID: "in-flight", Key: byIP, Limits: enginetest.Limits("2 concurrent")}},
	"debt": {{
		ID: "tokens", Key: byIP, Limits: enginetest.Limits("100/m"),
		Cost: rules.Cost{ResponseHeader: "X-Tokens-Used", Estimate: 10},
	}},
	"degraded": {
		{ID: "open", Key: byIP, When: onPath("/open"), Limits: enginetest.Limits("10/s")},
		{
			ID: "closed", Key: byIP, When: onPath("/closed"), Limits: enginetest.Limits("10/s"),
			OnFailure: headgate.Closed,
		},
	},
	"denied":        {{ID: "per-client", Key: byIP, Limits: enginetest.Limits("2/m fixed-window")}},
	"dialect-draft": {{ID: "per-client", Key: byIP, Limits: enginetest.Limits("1/h")}},
	"dialect-none":  {{ID: "per-client", Key: byIP, Limits: enginetest.Limits("1/h")}},
	"dialect-x":     {{ID: "per-client", Key: byIP, Limits: enginetest.Limits("1/h")}},
	"dropped": {{
		ID: "per-client", Key: byIP, Limits: enginetest.Limits("1/m"), OnLimit: rules.OnLimit{Action: rules.Drop},
	}},
	"forbidden": {
		{
			ID: "banned", Block: true,
			When: rules.Condition{Tests: []rules.Test{{
				Attribute: headgate.Attribute{Kind: headgate.AttrHeader, Name: "user-agent"}, Values: []string{"*bot*"},
			}}},
		},
		{
			ID: "who-are-you", When: onPath("/private"), Key: []headgate.Attribute{{Kind: headgate.AttrUser}},
			Fallback: rules.FallbackDeny, Limits: enginetest.Limits("10/s"),
		},
		{
			ID: "members", When: onPath("/members"), Key: byIP, Unregistered: rules.UnregisteredDeny,
			Limits: enginetest.Limits("10/s"),
		},
	},
	"malformed": {{ID: "per-client", Key: byIP, Limits: enginetest.Limits("1/m")}},
	"never": {{
		ID: "by-weight", Key: byIP, Limits: enginetest.Limits("10/s"), Cost: rules.Cost{Header: "X-Weight", Max: 50},
	}},
	"penalty": {{
		ID: "login", Key: byIP, Limits: enginetest.Limits("2/s"),
		Penalty: &rules.Penalty{
			After:  rules.Denials{Count: 2, Within: time.Minute},
			Limits: enginetest.Limits("1/m"), For: 10 * time.Minute,
		},
	}},
	"service-limits-itself": {{ID: "per-client", Key: byIP, Limits: enginetest.Limits("100/h")}},
	"several": {
		{ID: "per-client", Key: byIP, Limits: []rules.Limit{
			{Limit: headgate.MustParseLimit("3/s")},
			{Name: "hourly", Limit: headgate.MustParseLimit("100/h sliding-window")},
			{Name: "short", Limit: headgate.MustParseLimit("50/500ms")},
		}},
		{ID: "everybody", Limits: enginetest.Limits("1/10s burst 2")},
		{ID: "tried-out", Key: byIP, Limits: enginetest.Limits("1/h"), OnLimit: rules.OnLimit{Action: rules.Shadow}},
		{ID: "elsewhere", When: onPath("/other"), Limits: enginetest.Limits("1/h")},
	},
	"unavailable": {{ID: "per-client", Key: byIP, Limits: enginetest.Limits("1/m"), Status: 503}},
	"untold": {
		{
			ID: "nothing-to-tell", When: onPath("/shadow"), Key: byIP, Limits: enginetest.Limits("1/h"),
			OnLimit: rules.OnLimit{Action: rules.Shadow},
		},
		{ID: "free", When: onPath("/free"), Unlimited: true},
	},
}

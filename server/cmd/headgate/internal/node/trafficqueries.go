package node

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/headgate/headgate/server/telemetry/traffic"
)

// answerTraffic answers a query of the rules service about the traffic of this node.
func (n *Node) answerTraffic(query json.RawMessage) (json.RawMessage, error) {
	var q traffic.NodeQuery
	if err := json.Unmarshal(query, &q); err != nil {
		return nil, fmt.Errorf("read the query: %w", err)
	}
	now := time.Now()
	var response traffic.NodeResponse
	if q.Sample != nil {
		response.Sample = n.recorder.Sample(q.Sample.Rule, now.Add(-q.Sample.Window), now)
	}
	if q.Series != nil {
		response.Series = n.ownTraffic.Series(*q.Series, now)
	}
	if q.Decisions != nil && n.decisionLog != nil {
		response.Decisions = n.decisionLog.Find(*q.Decisions)
	}
	return json.Marshal(response)
}

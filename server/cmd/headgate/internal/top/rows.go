package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/control"
)

// StoreHeader and NodeHeader are the headers of StoreRows and NodeRows.
var (
	StoreHeader = []string{"STORE", "ROLE", "OPS/S", "CPU", "MEMORY", "PING", "STATE"}
	NodeHeader  = []string{"NODE", "REGION", "REVISION", "SEEN", "STORE"}
)

// StoreRows returns the Redis servers as rows of a table, those that do not respond first.
func (f *Figures) StoreRows() [][]string {
	list := slices.Clone(f.Stores)
	slices.SortStableFunc(list, func(a, b control.ServerStats) int { return cmp.Compare(isDown(&b), isDown(&a)) })
	var rows [][]string
	for i := range list {
		r := &list[i]
		row := []string{output.Sanitize(r.Server), output.Sanitize(r.Role), "-", "-", "-", "-", "down: " + output.Sanitize(r.Error)}
		if r.Up {
			row[2], row[6] = strconv.FormatInt(r.OpsPerSecond, 10), "ok"
			if r.CPU >= 0 {
				row[3] = fmt.Sprintf("%.0f %%", 100*r.CPU)
			}
			row[4], row[5] = fmt.Sprintf("%.1f MB", float64(r.MemoryBytes)/1e6), fmt.Sprintf("%.1f ms", r.PingMS)
		}
		rows = append(rows, row)
	}
	return rows
}

// isDown returns 1 if a server does not respond.
func isDown(r *control.ServerStats) int {
	if r.Up {
		return 0
	}
	return 1
}

// NodeRows returns the nodes as rows of a table, those with a problem first.
func (f *Figures) NodeRows(now time.Time) [][]string {
	list := slices.Clone(f.Nodes)
	slices.SortStableFunc(list, func(a, b control.Node) int { return cmp.Compare(problems(&b), problems(&a)) })
	var rows [][]string
	for i := range list {
		n := &list[i]
		revision, seen, store := strconv.FormatInt(n.Revision, 10), "-", "memory"
		if n.Behind {
			revision += " old"
		}
		if !n.Seen.IsZero() {
			seen = max(now.Sub(n.Seen), 0).Truncate(time.Second).String()
		}
		if n.Counters != "" { // the id of the shared store that has the node's counters
			store = "shared"
		}
		rows = append(rows, []string{
			output.Sanitize(n.ID), output.Sanitize(n.Region), revision, seen, store + ": " + output.Sanitize(n.Store),
		})
	}
	return rows
}

// problems returns the number of problems of a node.
func problems(n *control.Node) (count int) {
	if n.Store != "ok" {
		count++
	}
	if n.Behind || n.Error != "" {
		count++
	}
	return count
}

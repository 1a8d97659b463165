package tryrules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/internal/terminal"
	"github.com/headgate/headgate/server/whatif"
)

// printWhatIf prints the results of all rules.
func (p *program) printWhatIf(result *whatIfResult) error {
	if s := result.Log; s != nil {
		p.Printf("%s log, %d lines: %d requests, %d skipped\n", s.Format, s.Lines, s.Requests, s.Skipped)
		for _, e := range s.Examples {
			p.Printf("  line %d: %s: %s\n", e.Line, e.Reason, output.Sanitize(output.Truncate(e.Text, 80)))
		}
	}
	for _, r := range result.Rules {
		if err := p.printWhatIfRule(r); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) printWhatIfRule(r *whatif.Result) error {
	p.Printf("\n%s with %s, %s to %s\n", r.Rule, strings.Join(r.Limits, ", "), output.LocalTime(r.From), output.LocalTime(r.To))
	rows := [][]string{
		{"requests", estimateText(r.Requests, r.Requests.Value)},
		{"denied", estimateText(r.Denied, r.Requests.Value)},
		{"clients", estimateText(r.Clients, r.Clients.Value)},
		{"affected", estimateText(r.Affected, r.Clients.Value)},
	}
	if r.Delayed.High > 0 {
		rows = append(rows, []string{"delayed", estimateText(r.Delayed, r.Requests.Value)})
	}
	if c := r.Current; c != nil {
		rows = append(rows, []string{"denied now", estimateText(c.Denied, r.Requests.Value) + " with " + strings.Join(c.Limits, ", ")},
			[]string{"affected now", estimateText(c.Affected, r.Clients.Value)})
	}
	if u := r.Unaffected99; u != nil {
		rows = append(rows, []string{"99 % of clients unaffected at", u.Limit})
	}
	for _, row := range rows {
		p.Printf("  %-30s%s\n", row[0], row[1])
	}
	if r.SampledOneIn > 1 {
		p.Printf("  one in %d clients was replayed; ranges are 95 %% confidence intervals\n", r.SampledOneIn)
	}
	if len(r.Curve) > 0 {
		mostDenied := max(r.Curve[0].Denied.Value, 1) // the first point has the lowest limit
		table := make([][]string, len(r.Curve))
		for i, point := range r.Curve {
			table[i] = []string{
				point.Limit, estimateText(point.Denied, r.Requests.Value), estimateText(point.Affected, r.Clients.Value),
				terminal.Bar(float64(point.Denied.Value)/float64(mostDenied), 20),
			}
		}
		p.Printf("\n")
		if err := p.Show(output.Table, nil, []string{"LIMIT", "DENIED", "CLIENTS AFFECTED", ""}, table); err != nil {
			return err
		}
	}
	if len(r.Top) > 0 {
		table := make([][]string, len(r.Top))
		for i, c := range r.Top {
			table[i] = []string{clientText(c.Client), strconv.FormatInt(c.Requests, 10), strconv.FormatInt(c.Denied, 10)}
		}
		p.Printf("\n")
		if err := p.Show(output.Table, nil, []string{"CLIENT", "REQUESTS", "DENIED"}, table); err != nil {
			return err
		}
	}
	for _, note := range r.Notes {
		p.Printf("note: %s\n", note)
	}
	return nil
}

// estimateText formats an estimate with its share of a total, and its interval if it has one. The share is omitted if
// total is 0 or equal to the estimate.
func estimateText(e whatif.Estimate, total int64) string {
	text := strconv.FormatInt(e.Value, 10)
	if e.Low != e.High {
		text += fmt.Sprintf(" (%d to %d)", e.Low, e.High)
	}
	if total > 0 && e.Value != total {
		text += fmt.Sprintf(" %.3g%%", 100*float64(e.Value)/float64(total))
	}
	return text
}

// clientText formats a client's attributes.
func clientText(client any) string {
	var parts []string
	switch c := client.(type) {
	case map[string]string:
		for name, value := range c {
			parts = append(parts, name+"="+value)
		}
	case map[string]any:
		for name, value := range c {
			parts = append(parts, fmt.Sprint(name, "=", value))
		}
	}
	if len(parts) == 0 {
		return "(all)"
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/accesslogs"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/cmd/headgate/internal/rulesfile"
	"github.com/headgate/headgate/server/internal/terminal"
	"github.com/headgate/headgate/server/whatif"
)

// whatIfFlags are the flags of rules whatif.
type whatIfFlags struct {
	log, format   string
	rule, current string
	top           int
	out           output.Format
}

func (p *program) whatIfCommand() *cobra.Command {
	f := &whatIfFlags{}
	c := &cobra.Command{
		Use:   "whatif --log FILE --rule FILE",
		Short: "Show what a rule would have denied in the past",
		Long: `Show what a rule would have denied in the past: the requests of an access log are replayed through the algorithms of
the rule's limits. The result has the requests and clients that the rule denies, the clients with the most denials, the
outcome over other values of the limit that denies most, and the lowest limit that 99 % of the clients do not notice.

The log is in the common or combined format of Apache and nginx, in JSON lines (Caddy, the gateway of Headgate and others)
or in CSV with a line of column names such as time,ip,user,path. It may be compressed with gzip; - is standard input. Lines
that cannot be read are counted.

The rule file is a rules file or has one rule. With --current, the same is computed for the rule with the same id in
that file, to compare. Ctrl-C shows the result so far.

The exit code is 0, or 1 after an error or Ctrl-C.`,
		Example: `  headgate rules whatif --log access.log --rule new.yaml
  headgate rules whatif --log access.json --rule new.yaml --current rules.yaml -o json
  cat access.log | headgate rules whatif --log - --rule new.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.whatIf(c.Context(), f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.log, "log", "", "access log `FILE`, - for standard input")
	flags.StringVar(&f.format, "log-format", string(accesslogs.Auto), "auto, common, combined, json or csv")
	flags.StringVar(&f.rule, "rule", "", "`FILE` with the rule to try")
	flags.StringVar(&f.current, "current", "", "rules `FILE` to compare with")
	flags.IntVar(&f.top, "top", 10, "how many clients to list")
	output.AddFlag(c, &f.out)
	_ = c.MarkFlagRequired("rule") // the flags exist
	_ = c.MarkFlagRequired("log")
	formats := make([]string, len(accesslogs.Formats))
	for i, format := range accesslogs.Formats {
		formats[i] = string(format)
	}
	_ = c.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// whatIfResult is what rules whatif prints in JSON.
type whatIfResult struct {
	Log   *accesslogs.Stats `json:"log,omitempty"`
	Rules []*whatif.Result  `json:"rules"`
}

func (p *program) whatIf(ctx context.Context, f *whatIfFlags) error {
	if f.top < 1 || f.top > 1000 {
		return fmt.Errorf("--top %d: want 1 to 1000", f.top)
	}
	set, err := readRules(f.rule, p)
	if err != nil {
		return err
	}
	var current *match.Set
	if f.current != "" {
		if current, err = readRules(f.current, p); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, err := p.replayLog(ctx, f, set, current)
	interrupted := errors.Is(err, context.Canceled)
	if err != nil && !interrupted {
		return err
	}
	if f.out != output.Table {
		if err := p.show(f.out, result, nil, nil); err != nil {
			return err
		}
	} else if err := p.printWhatIf(result); err != nil {
		return err
	}
	if interrupted {
		return errors.New("interrupted; the results are partial")
	}
	return nil
}

// readRules reads a rules file, or a file with one rule.
func readRules(name string, p *program) (*match.Set, error) {
	data, err := rulesfile.Read(name, p.stdin)
	if err != nil {
		return nil, err
	}
	parsed, err := source.Read(name, data)
	if err != nil {
		return nil, err
	}
	if parsed.Root != nil && parsed.Root.Kind == source.Map && parsed.Root.Field("id") != nil {
		r, err := file.ReadRule(name, data)
		if err != nil {
			return nil, err
		}
		return match.Compile([]rules.Rule{r})
	}
	doc, err := file.FromSource(parsed)
	if err != nil {
		return nil, err
	}
	return doc.Compile()
}

// replayLog reads the log and replays it under each rule.
func (p *program) replayLog(ctx context.Context, f *whatIfFlags, set, current *match.Set) (*whatIfResult, error) {
	if set.Len() == 0 {
		return nil, fmt.Errorf("%s: no rule is enabled", f.rule)
	}
	logs, err := accesslogs.Open(f.log, p.stdin, accesslogs.Options{Format: accesslogs.Format(f.format)})
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }() // it was only read
	id, err := identity.New(identity.Config{})
	if err != nil {
		return nil, err
	}
	progress := newProgressLine(p.stderr)
	reading, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // ends with stop
		defer close(done)
		progress.showReading(reading, logs)
	}()
	traffic, err := whatif.ReadLog(ctx, logs, whatif.LogOptions{Set: set, Identifier: id})
	stop()
	<-done
	progress.clear()
	interrupted := err
	if err != nil && !errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("%s: %w", f.log, err)
	}
	stats := logs.Stats()
	if stats.Requests == 0 {
		return nil, noRequests(f.log, &stats)
	}
	replay := ctx
	if interrupted != nil { // the requests so far are replayed, without the curve
		replay = context.WithoutCancel(ctx)
	}
	result := &whatIfResult{Log: &stats}
	for _, rule := range set.Rules() {
		r, err := whatif.Run(replay, traffic[rule.ID], whatif.Proposal{Set: set, Rule: rule.ID, Current: current, Top: f.top},
			func(done, total int) { progress.text(fmt.Sprintf("%s: replay %d of %d", rule.ID, done, total)) })
		progress.clear()
		if r != nil {
			r.Notes = append(r.Notes, whatif.LogNotes(stats, rule)...)
			r.Partial = r.Partial || interrupted != nil
			result.Rules = append(result.Rules, r)
		}
		if err != nil {
			return result, err
		}
	}
	return result, interrupted
}

func noRequests(name string, stats *accesslogs.Stats) error {
	if len(stats.Examples) == 0 {
		return fmt.Errorf("%s: no requests", name)
	}
	e := stats.Examples[0]
	return fmt.Errorf("%s:%d: %s: %s; see --log-format", name, e.Line, e.Reason, rules.Quote(e.Text))
}

// showReading shows how much of a log was read, until ctx ends.
func (l *progressLine) showReading(ctx context.Context, logs *accesslogs.Reader) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			const mega = 1e6
			if done, size := logs.Progress(); size > 0 {
				l.text(fmt.Sprintf("reading: %d%% of %.1f MB", 100*done/size, float64(size)/mega))
			} else {
				l.text(fmt.Sprintf("reading: %.1f MB", float64(done)/mega))
			}
		}
	}
}

// text shows a text.
func (l *progressLine) text(text string) {
	if l.to == nil || time.Since(l.shown) < 100*time.Millisecond {
		return
	}
	l.shown = time.Now()
	_, _ = fmt.Fprintf(l.to, "\r\x1b[K%s", text)
}

func (p *program) printWhatIf(result *whatIfResult) error {
	if s := result.Log; s != nil {
		p.printf("%s log, %d lines: %d requests, %d skipped\n", s.Format, s.Lines, s.Requests, s.Skipped)
		for _, e := range s.Examples {
			p.printf("  line %d: %s: %s\n", e.Line, e.Reason, output.Sanitize(output.Truncate(e.Text, 80)))
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
	p.printf("\n%s with %s, %s to %s\n", r.Rule, strings.Join(r.Limits, ", "), output.LocalTime(r.From), output.LocalTime(r.To))
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
		p.printf("  %-30s%s\n", row[0], row[1])
	}
	if r.SampledOneIn > 1 {
		p.printf("  one in %d clients was replayed; the truth is in the intervals with 95 %%\n", r.SampledOneIn)
	}
	if len(r.Curve) > 0 {
		most := max(r.Curve[0].Denied.Value, 1)
		table := make([][]string, len(r.Curve))
		for i, point := range r.Curve {
			table[i] = []string{
				point.Limit, estimateText(point.Denied, r.Requests.Value), estimateText(point.Affected, r.Clients.Value),
				terminal.Bar(float64(point.Denied.Value)/float64(most), 20),
			}
		}
		p.printf("\n")
		if err := p.show(output.Table, nil, []string{"LIMIT", "DENIED", "CLIENTS AFFECTED", ""}, table); err != nil {
			return err
		}
	}
	if len(r.Top) > 0 {
		table := make([][]string, len(r.Top))
		for i, c := range r.Top {
			table[i] = []string{clientText(c.Client), strconv.FormatInt(c.Requests, 10), strconv.FormatInt(c.Denied, 10)}
		}
		p.printf("\n")
		if err := p.show(output.Table, nil, []string{"CLIENT", "REQUESTS", "DENIED"}, table); err != nil {
			return err
		}
	}
	for _, note := range r.Notes {
		p.printf("note: %s\n", note)
	}
	return nil
}

// estimateText formats an estimate with its share of a total, and its interval if it has one.
func estimateText(e whatif.Estimate, of int64) string {
	text := strconv.FormatInt(e.Value, 10)
	if e.Low != e.High {
		text += fmt.Sprintf(" (%d to %d)", e.Low, e.High)
	}
	if of > 0 && e.Value != of {
		text += fmt.Sprintf(" %.3g%%", 100*float64(e.Value)/float64(of))
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

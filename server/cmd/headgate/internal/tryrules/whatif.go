package tryrules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/accesslogs"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/cmd/headgate/internal/rulesfile"
	"github.com/headgate/headgate/server/control/nodequery"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/whatif"
)

// whatIfFlags are the flags of rules whatif.
type whatIfFlags struct {
	log, format   string
	rule, current string
	window        string
	top           int
	out           output.Format
}

func (p *program) whatIfCommand(server *cli.ServerFlags) *cobra.Command {
	f := &whatIfFlags{}
	c := &cobra.Command{
		Use:   "whatif --rule FILE [--log FILE]",
		Short: "Show what a rule would have denied in the past",
		Long: `Show what a rule would have denied in the past: requests of an access log, or those that the nodes of a rules
service have sampled in the last hours, are replayed through the algorithms of the rule's limits. The result has the
requests and clients that the rule denies, the clients with the most denials, the outcome over other values of the
limit that denies most, and the lowest limit that 99 % of the clients do not notice.

The log is in the common or combined format of Apache and nginx, in JSON lines (Caddy, the gateway of Headgate and
others) or in CSV with a line of column names such as time,ip,user,path. It may be compressed with gzip; - is standard
input. Lines that cannot be read are counted.

The rule file is a rules file or has one rule. With --current, the same is computed for the rule with the same id in
that file, to compare. Ctrl-C shows the result so far.

Without --log the rule file has one rule, with the id and the key of a rule in force, and --window says how much of the
last three hours is replayed.

The exit code is 0, or 1 after an error or Ctrl-C.`,
		Example: `  headgate rules whatif --log access.log --rule new.yaml
  headgate rules whatif --log access.json --rule new.yaml --current rules.yaml -o json
  cat access.log | headgate rules whatif --log - --rule new.yaml
  headgate rules whatif --rule new.yaml --window 30m`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.validate(c.Flags().Changed); err != nil {
				return err
			}
			if f.log == "" {
				return p.WithClient(server, func(ctx context.Context, client *remote.Client, _ []string) error {
					return p.whatIfRemotely(ctx, client, f)
				})(c, args)
			}
			return p.whatIf(c.Context(), f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.log, "log", "", "access log `FILE`, - for standard input")
	flags.StringVar(&f.format, "log-format", string(accesslogs.Auto), "auto, common, combined, json or csv")
	flags.StringVar(&f.rule, "rule", "", "`FILE` with the rule to try")
	flags.StringVar(&f.current, "current", "", "rules `FILE` to compare with")
	flags.StringVar(&f.window, "window", "1h", "without --log: replay the last `DURATION`, from 1m to 3h")
	flags.IntVar(&f.top, "top", 10, "how many clients to list")
	output.AddFlag(c, &f.out)
	_ = c.MarkFlagRequired("rule") // the flag exists
	formats := make([]string, len(accesslogs.Formats))
	for i, format := range accesslogs.Formats {
		formats[i] = string(format)
	}
	_ = c.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// whatIfResult is the JSON output of rules whatif.
type whatIfResult struct {
	Log   *accesslogs.Stats `json:"log,omitempty"`
	Rules []*whatif.Result  `json:"rules"`
}

// validate refuses flags that would be ignored.
func (f *whatIfFlags) validate(changed func(name string) bool) error {
	if f.top < 1 || f.top > maxWhatIfTop {
		return fmt.Errorf("--top %d: want 1 to %d", f.top, maxWhatIfTop)
	}
	if f.log != "" && changed("window") {
		return errors.New("--window: the whole log is replayed: want it without --log")
	}
	if f.log == "" && (changed("current") || changed("log-format")) {
		return errors.New("--current and --log-format: want them with --log; a rules service compares with the rule in force")
	}
	return nil
}

const maxWhatIfTop = 100

// whatIfRemotely makes a rules service replay the requests that its nodes have sampled.
func (p *program) whatIfRemotely(ctx context.Context, client *remote.Client, f *whatIfFlags) error {
	doc, err := readDocument(f.rule, p)
	if err != nil {
		return err
	}
	if len(doc.Rules) != 1 {
		return fmt.Errorf("%s: %d rules: want one", f.rule, len(doc.Rules))
	}
	body := map[string]any{
		"draft": json.RawMessage(file.RuleJSON(&doc.Rules[0])), "window": f.window, "top": f.top,
	}
	var response struct {
		whatif.Result
		Window string                 `json:"window"`
		Nodes  []nodequery.NodeStatus `json:"nodes"`
		Error  string                 `json:"error,omitempty"`
	}
	stop := cli.NewProgressLine(p.Stderr).ShowWait("the rules service replays sampled requests")
	err = client.WhatIf(ctx, body, &response)
	stop()
	if err != nil {
		return err
	}
	if f.out != output.Table {
		return p.Show(f.out, response, nil, nil)
	}
	if err := p.printWhatIfRule(&response.Result); err != nil {
		return err
	}
	responded := 0
	for _, n := range response.Nodes {
		if n.State == nodequery.StateAnswered {
			responded++
		}
	}
	p.Printf("%d of %s responded\n", responded, output.Plural(len(response.Nodes), "node"))
	if response.Error != "" {
		return fmt.Errorf("the figures lack some nodes: %s", response.Error)
	}
	return nil
}

func (p *program) whatIf(ctx context.Context, f *whatIfFlags) error {
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
	ctx, stop := cli.UntilInterrupted(ctx)
	defer stop()
	result, err := p.replayLog(ctx, f, set, current)
	interrupted := errors.Is(err, context.Canceled)
	if err != nil && !interrupted {
		return err
	}
	if f.out != output.Table {
		if err := p.Show(f.out, result, nil, nil); err != nil {
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
	doc, err := readDocument(name, p)
	if err != nil {
		return nil, err
	}
	return doc.Compile()
}

func readDocument(name string, p *program) (*file.Document, error) {
	data, err := rulesfile.Read(name, p.Stdin)
	if err != nil {
		return nil, err
	}
	parsed, err := source.Read(name, data)
	if err != nil {
		return nil, err
	}
	if parsed.Root == nil || parsed.Root.Kind != source.Map || parsed.Root.Field("id") == nil {
		return file.FromSource(parsed)
	}
	r, err := file.ReadRule(name, data)
	return &file.Document{Rules: []rules.Rule{r}}, err
}

// replayLog reads the log and replays it under each rule.
func (p *program) replayLog(ctx context.Context, f *whatIfFlags, set, current *match.Set) (*whatIfResult, error) {
	if set.Len() == 0 {
		return nil, fmt.Errorf("%s: no rule is enabled", f.rule)
	}
	logs, err := accesslogs.Open(f.log, p.Stdin, accesslogs.Options{Format: accesslogs.Format(f.format)})
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }() // it was only read
	id, err := identity.New(identity.Config{})
	if err != nil {
		return nil, err
	}
	progress := cli.NewProgressLine(p.Stderr)
	reading, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // ends with stop
		defer close(done)
		showReading(reading, progress, logs)
	}()
	traffic, err := whatif.ReadLog(ctx, logs, whatif.LogOptions{Set: set, Identifier: id})
	stop()
	<-done
	progress.Clear()
	interrupted := err
	if err != nil && !errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("%s: %w", f.log, err)
	}
	stats := logs.Stats()
	if stats.Requests == 0 {
		return nil, noRequests(f.log, &stats)
	}
	replay := ctx
	if interrupted != nil { // replay the requests that were read, although ctx has ended
		replay = context.WithoutCancel(ctx)
	}
	result := &whatIfResult{Log: &stats}
	for _, rule := range set.Rules() {
		r, err := whatif.Run(replay, traffic[rule.ID], whatif.Proposal{Set: set, Rule: rule.ID, Current: current, Top: f.top},
			func(done, total int) { progress.Printf("%s: replay %d of %d", rule.ID, done, total) })
		progress.Clear()
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
func showReading(ctx context.Context, l *cli.ProgressLine, logs *accesslogs.Reader) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			const mega = 1e6
			if done, size := logs.Progress(); size > 0 {
				l.Printf("reading: %d%% of %.1f MB", 100*done/size, float64(size)/mega)
			} else {
				l.Printf("reading: %.1f MB", float64(done)/mega)
			}
		}
	}
}

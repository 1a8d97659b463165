package manage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/remote"
)

// An enforcementReport is the response to all calls about enforcement.
type enforcementReport struct {
	Off []control.Suspension `json:"off"`
}

// enforceFlags are the flags of all subcommands of enforce.
type enforceFlags struct {
	cli.ServerFlags
	allNamespaces, thisNode bool
	out                     output.Format
}

func (p *program) enforceCommand() *cobra.Command {
	f := &enforceFlags{}
	c := &cobra.Command{
		Use:   "enforce",
		Short: "Stop enforcing a rule, a namespace or everything for a time",
		Long: `Stop enforcing a rule, a namespace or everything for a time. Requests over a limit are then admitted and
counted, as with on_limit: shadow. Every node follows within a second, and enforces again by itself when the time has
passed. The audit log, /readyz and the metric headgate_enforcement_off_rules show it.

With --this-node, the command switches only the node at --server, even while its rules service is unreachable. It needs
the token in the node's --admin-token-file. The node writes the change to its log instead of the audit log, and forgets
it when its process ends. The node reports the change to the rules service, whose console and "headgate enforce status"
show it; enforce again with --this-node.`,
		Example: `  # at 3 a.m.: stop enforcing everything in the namespace for half an hour
  headgate enforce off --for 30m --note "customers are blocked"

  headgate enforce status
  headgate enforce on`,
	}
	p.AddServerFlags(c, &f.ServerFlags)
	c.PersistentFlags().BoolVar(&f.allNamespaces, "all-namespaces", false, "all namespaces of the rules service")
	c.PersistentFlags().BoolVar(&f.thisNode, "this-node", false, "only the node at --server, without its rules service")
	c.MarkFlagsMutuallyExclusive("all-namespaces", "this-node")
	c.AddCommand(p.enforceOffCommand(f), p.enforceOnCommand(f), p.enforceStatusCommand(f))
	return c
}

func (p *program) enforceOffCommand(f *enforceFlags) *cobra.Command {
	duration := 30 * time.Minute
	c := &cobra.Command{
		Use:   "off [RULE]",
		Short: "Admit and count requests over the limits of a rule, or of all rules, for a time",
		Example: `  headgate enforce off search-per-user --for 15m
  headgate enforce off --for 1h --note "launch day"
  headgate enforce off --all-namespaces --for 10m
  headgate enforce off --this-node --for 10m`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: p.completeIDs(&ruleKind, &f.ServerFlags),
	}
	c.RunE = p.WithClient(&f.ServerFlags, func(ctx context.Context, client *remote.Client, args []string) error {
		return p.switchEnforcement(ctx, client, f, args, enforceSwitch{"off", duration})
	})
	cli.AddDurationFlag(c.Flags(), &duration, "for", "how long, 1s to 7d")
	cli.AddNoteFlag(c, &f.ServerFlags)
	output.AddFlag(c, &f.out)
	return c
}

func (p *program) enforceOnCommand(f *enforceFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "on [RULE]",
		Short: "Enforce a rule, or all rules, again",
		Example: `  headgate enforce on search-per-user
  headgate enforce on
  headgate enforce on --this-node`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: p.completeIDs(&ruleKind, &f.ServerFlags),
	}
	c.RunE = p.WithClient(&f.ServerFlags, func(ctx context.Context, client *remote.Client, args []string) error {
		return p.switchEnforcement(ctx, client, f, args, enforceSwitch{state: "on"})
	})
	cli.AddNoteFlag(c, &f.ServerFlags)
	output.AddFlag(c, &f.out)
	return c
}

func (p *program) enforceStatusCommand(f *enforceFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Show which rules are not enforced, and until when",
		Example: `  headgate enforce status
  headgate enforce status --all-namespaces --output json
  headgate enforce status --this-node`,
		Args: cobra.NoArgs,
	}
	c.RunE = p.WithClient(&f.ServerFlags, func(ctx context.Context, client *remote.Client, _ []string) error {
		query := url.Values{}
		if f.allNamespaces {
			query.Set("all_namespaces", "true")
		}
		return p.callEnforcement(ctx, client, f, enforcementCall{
			command: "status", method: http.MethodGet, path: f.path(), query: query,
		})
	})
	output.AddFlag(c, &f.out)
	return c
}

// path returns the path of calls to the rules service or, with --this-node, to one node.
func (f *enforceFlags) path() string {
	if f.thisNode {
		return "/v1/node/enforcement"
	}
	return "/v1/enforcement"
}

// An enforceSwitch is a change of enforcement: "off" for a time, or "on".
type enforceSwitch struct {
	state    string
	duration time.Duration
}

// switchEnforcement turns enforcement on or off. args may contain the ID of a rule.
func (p *program) switchEnforcement(
	ctx context.Context, client *remote.Client, f *enforceFlags, args []string, to enforceSwitch,
) error {
	request, command := map[string]any{}, to.state
	if len(args) > 0 {
		request["rule"] = args[0]
		command += " " + args[0]
	}
	if to.state == "off" {
		request["for"] = to.duration.String()
		command += " --for " + flagText(to.duration)
	}
	if f.allNamespaces {
		request["all_namespaces"] = true
	}
	return p.callEnforcement(ctx, client, f, enforcementCall{
		command: command, method: http.MethodPost, path: f.path() + ":" + to.state, request: request,
	})
}

// flagText formats a duration as people type it for a flag: 30m instead of 30m0s.
func flagText(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// An enforcementCall is a call about enforcement. command is the subcommand with its arguments, for advice.
type enforcementCall struct {
	command, method, path string
	query                 url.Values
	request               any
}

// callEnforcement makes a call and shows its response.
func (p *program) callEnforcement(
	ctx context.Context, client *remote.Client, f *enforceFlags, call enforcementCall,
) error {
	var report enforcementReport
	if err := client.Do(ctx, call.method, call.path, call.query, call.request, &report); err != nil {
		return suggestThisNode(f, err, client.Name(), call.command)
	}
	if f.out == output.Table && len(report.Off) == 0 {
		p.Printf("all rules are enforced\n")
		return nil
	}
	rows := [][]string{}
	for _, s := range report.Off {
		rows = append(rows, []string{
			cmp.Or(s.Rule, "(all)"), whereText(&s), output.OrDash(s.Namespace),
			s.Expires.Local().Format(time.DateTime), time.Until(s.Expires).Round(time.Second).String(), s.By,
			output.OrDash(s.Note),
		})
	}
	return p.Show(f.out, report, []string{"NOT ENFORCED", "ON", "NAMESPACE", "UNTIL", "LEFT", "BY", "NOTE"}, rows)
}

// whereText returns on which nodes a suspension is in force.
func whereText(s *control.Suspension) string {
	switch {
	case s.Node != "":
		return "node " + s.Node
	case s.Scope == control.ScopeNode:
		return "this node"
	}
	return "all nodes"
}

// suggestThisNode adds the command for one node to an error if the rules service did not serve the call. server is the
// URL of the call, and command the command without the flags that select a node.
func suggestThisNode(f *enforceFlags, err error, server, command string) error {
	var refused *remote.Error
	node := "http://NODE:8084" // the rules service did not respond: its nodes have other addresses
	if errors.As(err, &refused) {
		noService := strings.HasPrefix(refused.Detail, remote.NoService) // the server is only a node
		if !noService && refused.Status != http.StatusServiceUnavailable {
			return err
		}
		node = server
	}
	if f.thisNode {
		return err
	}
	return fmt.Errorf("%w\n  while the rules service is unreachable, switch each node, with the token of its "+
		"--admin-token-file:\n  headgate enforce %s --this-node --server %s --token-file FILE", err, command, node)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/control/remote"
	"github.com/headgate/headgate/rules"
)

// counted is what a client has left under one rule: on one node that counts by itself, or in a store that several share.
type counted struct {
	Rule     string `json:"id"`
	Effect   string `json:"effect"`
	Mode     string `json:"mode"`
	Client   string `json:"client,omitempty"`
	Node     string `json:"node,omitempty"`
	Region   string `json:"region,omitempty"`
	Counters string `json:"counters,omitempty"`
	Limits   []struct {
		Name         string `json:"name"`
		Limit        string `json:"limit"`
		Allowed      bool   `json:"allowed"`
		Capacity     int64  `json:"capacity"`
		Remaining    *int64 `json:"remaining"` // nil if it is not known
		RetryAfterMS int64  `json:"retry_after_ms"`
		ResetAfterMS *int64 `json:"reset_after_ms"`
	} `json:"limits"`
}

// where says who counts it.
func (c *counted) where() string {
	if c.Counters != "" {
		return "shared: " + c.Counters
	}
	return dash(c.Node)
}

// An askedNode is what became of asking a node.
type askedNode struct {
	ID       string `json:"id"`
	Region   string `json:"region,omitempty"`
	Address  string `json:"address,omitempty"`
	Counters string `json:"counters,omitempty"`
	State    string `json:"state"`
	Error    string `json:"error,omitempty"`
}

// tellSilent tells of the nodes that were not asked because they are taken for gone.
func (p *program) tellSilent(nodes []askedNode) {
	for _, n := range nodes {
		if n.State == "silent" {
			_, _ = fmt.Fprintf(p.stderr, "headgate: node %s: %s\n", n.ID, n.Error)
		}
	}
}

func (p *program) keysCommand() *cobra.Command {
	f := &serverFlags{}
	c := &cobra.Command{
		Use:   "keys",
		Short: "Look at what a client has left, or forget what it has consumed",
		Long: `Look at what a client has left, or forget what it has consumed, on all nodes of a namespace. Each node that counts in its own memory
is asked for itself; of those that share a store one is.

Exit codes: 0 done, 1 something is wrong, such as a node that did not answer or a store that could not be asked: what is left there is
unknown. Everything else is shown all the same.`,
		Example: `  headgate keys get user=acme
  headgate keys reset user=acme --rule search-per-user`,
	}
	p.addServer(c, f)
	c.AddCommand(p.getKeysCommand(f), p.resetKeysCommand(f))
	return c
}

// attributesOf reads arguments such as user=acme.
func attributesOf(args []string) (map[string]string, error) {
	made := make(map[string]string, len(args))
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" || value == "" {
			return nil, fmt.Errorf("%s: want ATTRIBUTE=VALUE, such as user=acme", rules.Quote(arg))
		}
		if _, twice := made[name]; twice {
			return nil, fmt.Errorf("%s: want each attribute once", name)
		}
		made[name] = value
	}
	return made, nil
}

func (p *program) getKeysCommand(f *serverFlags) *cobra.Command {
	var out format
	c := &cobra.Command{
		Use:   "get ATTRIBUTE=VALUE...",
		Short: "Show what a client has left under each rule that counts it",
		Example: `  headgate keys get user=acme
  headgate keys get user=acme ip=203.0.113.9 --output json`,
		Args: cobra.MinimumNArgs(1),
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, args []string) error {
		who, err := attributesOf(args)
		if err != nil {
			return err
		}
		query := url.Values{}
		for name, value := range who {
			query.Set(name, value)
		}
		var answer struct {
			Keys  []counted   `json:"keys"`
			Nodes []askedNode `json:"nodes"`
			Error string      `json:"error,omitempty"`
		}
		if err := at.Do(ctx, "GET", "/v1/keys", query, nil, &answer); err != nil {
			return err
		}
		rows := [][]string{}
		for _, k := range answer.Keys {
			if len(k.Limits) == 0 {
				rows = append(rows, []string{k.Rule, k.Effect, "-", "-", k.where(), dash(k.Client)})
			}
			for _, l := range k.Limits {
				left, full := "unknown", "unknown"
				if l.Remaining != nil && l.ResetAfterMS != nil {
					left, full = fmt.Sprintf("%d of %d", *l.Remaining, l.Capacity), soon(*l.ResetAfterMS)
				}
				rows = append(rows, []string{k.Rule, l.Limit, left, full, k.where(), dash(k.Client)})
			}
		}
		if err := p.show(out, answer, []string{"RULE", "LIMIT", "LEFT", "FULL", "NODE", "CLIENT"}, rows); err != nil {
			return err
		}
		p.tellSilent(answer.Nodes)
		if answer.Error != "" {
			return errors.New(answer.Error)
		}
		return nil
	})
	formatFlag(c, &out)
	return c
}

func (p *program) resetKeysCommand(f *serverFlags) *cobra.Command {
	var rule string
	var out format
	c := &cobra.Command{
		Use:   "reset ATTRIBUTE=VALUE...",
		Short: "Forget what a client has consumed",
		Example: `  headgate keys reset user=acme
  headgate keys reset user=acme --rule search-per-user`,
		Args: cobra.MinimumNArgs(1),
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, args []string) error {
		who, err := attributesOf(args)
		if err != nil {
			return err
		}
		asked := map[string]any{"attributes": who}
		if rule != "" {
			asked["rule"] = rule
		}
		var answer struct {
			Reset []string    `json:"reset"`
			Nodes []askedNode `json:"nodes"`
			Error string      `json:"error,omitempty"`
		}
		if err := at.Do(ctx, "POST", "/v1/keys:reset", nil, asked, &answer); err != nil {
			return err
		}
		if out != formatTable {
			if err := p.show(out, answer, nil, nil); err != nil {
				return err
			}
		} else {
			p.say("reset %s under %s\n", strings.Join(args, " "), strings.Join(answer.Reset, ", "))
		}
		p.tellSilent(answer.Nodes)
		if answer.Error != "" {
			return errors.New(answer.Error)
		}
		return nil
	})
	formatFlag(c, &out)
	c.Flags().StringVar(&rule, "rule", "", "`ID` of the rule (default all that count the client)")
	noteFlag(c, f)
	_ = c.RegisterFlagCompletionFunc("rule", p.completeIDs(&ruleSort, f)) // it is there
	return c
}

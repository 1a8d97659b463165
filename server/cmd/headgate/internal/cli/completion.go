package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/contexts"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/control/remote"
)

// completionTimeout is how long a completion may take, because the user's shell waits for it.
const completionTimeout = 2 * time.Second

// CompleteFromService calls find with a client of the rules service, and returns the completions that find returns.
func (p *Program) CompleteFromService(
	c *cobra.Command, f *ServerFlags, find func(context.Context, *remote.Client) ([]string, error),
) ([]string, cobra.ShellCompDirective) {
	client, err := p.Connect(f)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer func() { _ = client.Close() }() // all calls have returned
	ctx, cancel := context.WithTimeout(commandContext(c), completionTimeout)
	defer cancel()
	completions, err := find(ctx, client)
	if err != nil && len(completions) == 0 {
		return nil, cobra.ShellCompDirectiveError
	}
	return completions, cobra.ShellCompDirectiveNoFileComp
}

// CompleteByPrefix returns completions for the elements of list whose ID begins with prefix. describe returns the ID
// and the description of an element.
func CompleteByPrefix[T any](list []T, prefix string, describe func(*T) (id, description string)) []string {
	var completions []string
	for i := range list {
		if id, description := describe(&list[i]); strings.HasPrefix(id, prefix) {
			completions = append(completions, cobra.CompletionWithDesc(id, output.Sanitize(description)))
		}
	}
	return completions
}

// commandContext returns the context of a command, or the background context during shell completion, when it is nil.
func commandContext(c *cobra.Command) context.Context {
	if ctx := c.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

// ReadContexts reads the file with the contexts, which are saved addresses of rules services.
func (p *Program) ReadContexts() (contexts.File, error) {
	path, err := contexts.Path(p.Getenv)
	if err != nil {
		return contexts.File{}, err
	}
	return contexts.Read(path)
}

// CompleteContexts completes names of contexts.
func (p *Program) CompleteContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	file, err := p.ReadContexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return file.Names(), cobra.ShellCompDirectiveNoFileComp
}

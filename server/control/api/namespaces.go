package api

import (
	"slices"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api/internal/call"
)

// readNamespaces returns the namespaces that a call reads: its own or, with all_namespaces, all for which its token is
// valid, sorted by name. These include namespaces that have nodes and no rules.
func (s *Server) readNamespaces(c *call.Call) ([]string, error) {
	all, err := c.Flag("all_namespaces")
	if err != nil {
		return nil, err
	}
	if !all {
		return []string{c.Namespace}, nil
	}
	names := slices.Clone(c.Caller.Namespaces)
	if c.Caller.CoversAll() {
		if names, err = s.config.DB.Namespaces(c.R.Context()); err != nil {
			return nil, err
		}
		names = append(names, s.nodes.Namespaces()...)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == control.SystemNamespace })
	slices.Sort(names)
	return slices.Compact(names), nil
}

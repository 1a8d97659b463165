package scenario

import (
	"fmt"

	"github.com/headgate/headgate/rules/file/source"
)

// zeros returns the fields of a file that are 0 although they cannot be. Elsewhere a zero field means its default.
func zeros(root *source.Node) []source.Problem {
	var list []source.Problem
	refuse := func(n *source.Node, path string, fields ...string) {
		if n == nil {
			return
		}
		for _, name := range fields {
			if v := n.Field(name); v != nil && v.Text == "0" {
				list = append(list, source.Problem{
					Path: source.Join(path, name), Value: "0", Want: "1 or more", Line: v.Line, Column: v.Column,
				})
			}
		}
	}
	if root == nil {
		return nil
	}
	refuse(root, "", "nodes", "sample_one_in", "groups")
	refuse(root.Field("redis"), "redis", "shards")
	if traffic := root.Field("traffic"); traffic != nil {
		for i, n := range traffic.Items {
			path := fmt.Sprintf("traffic[%d]", i)
			refuse(n, path, "clients", "cost", "speed")
			refuse(n.Field("retry"), path+".retry", "attempts")
		}
	}
	return list
}

package scenario

import (
	"fmt"

	"github.com/headgate/headgate/rules/file/source"
)

// zeros returns a problem for each field in the file that is 0 but must not be 0. Without this check, such a field
// would silently get its default.
func zeros(root *source.Node) []source.Problem {
	if root == nil {
		return nil
	}
	var z zeroFields
	z.refuse(root, "", "1 or more", "nodes", "sample_one_in", "groups")
	z.refuse(root, "", aTime, "lease_ttl", "sync_interval")
	z.refuse(root.Field("redis"), "redis", "1 or more", "shards")
	z.refuse(root.Field("redis"), "redis", aTime, "service", "deadline")
	z.refuse(root.Field("regions"), "regions", aTime, "sync_interval")
	if traffic := root.Field("traffic"); traffic != nil {
		for i, n := range traffic.Items {
			path := fmt.Sprintf("traffic[%d]", i)
			z.refuse(n, path, "1 or more", "clients", "cost")
			z.refuse(n, path, "a factor above 0, as in 10", "speed")
			z.refuse(n, path, aTime, "until", "period", "on", "off", "client_on", "client_off")
			z.refuse(n.Field("retry"), path+".retry", "1 or more", "attempts")
			z.refuse(n.Field("retry"), path+".retry", aTime, "wait")
		}
	}
	if faults := root.Field("faults"); faults != nil {
		for i, n := range faults.Items {
			z.refuse(n, fmt.Sprintf("faults[%d]", i), aTime, "for")
		}
	}
	return z
}

// aTime tells which values are allowed for a time that must not be 0.
const aTime = "a time above 0"

// zeroFields are the problems of fields that must not be 0.
type zeroFields []source.Problem

// refuse adds a problem for each of the named fields of n that is 0. n may be nil.
func (z *zeroFields) refuse(n *source.Node, path, want string, fields ...string) {
	if n == nil {
		return
	}
	for _, name := range fields {
		if v := n.Field(name); v != nil && (v.Text == "0" || v.Text == "0s") {
			*z = append(*z, source.Problem{
				Path: source.Join(path, name), Value: v.Text, Want: want, Line: v.Line, Column: v.Column,
			})
		}
	}
}

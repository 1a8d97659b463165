package token

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/secret"
)

// A Draft is a token to create.
type Draft struct {
	ID          string    `field:"id"` // random if empty
	Role        Role      `field:"role"`
	Namespaces  []string  `field:"namespaces"`
	Description string    `field:"description"`
	Expires     time.Time `field:"expires"` // never if zero
	For         string    `field:"for"`     // a duration, instead of Expires
}

// maxNamespaces is the maximum number of namespaces of a token.
const maxNamespaces = 100

// Validate sets the ID and Expires if they are missing, and sorts the namespaces. It returns the invalid fields.
func (d *Draft) Validate(now time.Time) []source.Problem {
	var list []source.Problem
	if d.ID == "" {
		d.ID = secret.NewID()
	}
	if !control.IsName(d.ID) || len(d.ID) > 64 || slices.Contains(reservedIDs, d.ID) {
		want := control.NameFormat + "; for tokens at most 64, and none of " + strings.Join(reservedIDs, ", ")
		list = append(list, source.Problem{Path: "id", Value: rules.Quote(d.ID), Want: want})
	}
	if !slices.Contains(Roles, d.Role) {
		want := "one of " + JoinRoles(Roles)
		list = append(list, source.Problem{Path: "role", Value: rules.Quote(string(d.Role)), Want: want})
	}
	if len(d.Namespaces) == 0 || len(d.Namespaces) > maxNamespaces {
		list = append(list, source.Problem{Path: "namespaces", Want: `1 to 100 names of namespaces, or ["*"] for all`})
	}
	for i, n := range d.Namespaces {
		if n != AllNamespaces && !control.IsName(n) {
			path := "namespaces[" + strconv.Itoa(i) + "]"
			list = append(list, source.Problem{Path: path, Value: rules.Quote(n), Want: control.NameFormat + `, or "*"`})
		}
	}
	slices.Sort(d.Namespaces)
	d.Namespaces = slices.Compact(d.Namespaces)
	if len(d.Description) > rules.MaxText {
		list = append(list, source.Problem{Path: "description", Want: "at most 4096 bytes"})
	}
	if p := d.setExpires(now); p != nil {
		list = append(list, *p)
	}
	return list
}

// setExpires sets Expires if For is set, and checks it.
func (d *Draft) setExpires(now time.Time) *source.Problem {
	switch {
	case d.For != "" && !d.Expires.IsZero():
		return &source.Problem{Path: "for", Value: rules.Quote(d.For), Want: "either expires or for"}
	case d.For != "":
		duration, err := rules.ParseDuration(d.For)
		if err != nil {
			_, want := rules.Explain(err)
			return &source.Problem{Path: "for", Value: rules.Quote(d.For), Want: want}
		}
		d.Expires = now.Add(duration)
	case d.Expires.IsZero():
		return nil
	}
	if !d.Expires.After(now) {
		return &source.Problem{Path: "expires", Value: d.Expires.Format(time.RFC3339), Want: "a future time"}
	}
	d.Expires = d.Expires.UTC().Truncate(time.Second)
	return nil
}

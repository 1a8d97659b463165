package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
)

// A counter's key is namespace/rule/attributes/ with the values of the attributes, then the name of the limit:
//
//	/search-per-user/user/·alice1       for user alice, · standing for the length of what follows
//
// Every value has its length in front, or a zero and a hash in its place if it is long. So no two clients, and no two
// limits of one, can have the same key, whatever their names are.

// longValue is how long a value may be that stands in a key as it is.
const longValue = 256

// naming is how the keys of a rule begin, and whose they are.
type naming struct {
	begin      string
	attributes []headgate.Attribute
	owner      int    // which of the attributes names the owner, noNode if the rule itself is
	ownerBegin string // what stands before its value
}

func newNaming(r *Rule, attributes []headgate.Attribute) naming {
	n := naming{attributes: attributes, owner: ownerOf(attributes)}
	names := make([]string, len(attributes))
	for i, a := range attributes {
		names[i] = a.String()
		if strings.ContainsAny(a.Name, `/+"`) {
			names[i] = strconv.Quote(names[i])
		}
	}
	list := strings.Join(names, "+")
	if len(list) > longValue {
		sum := sha256.Sum256([]byte(list))
		list = hex.EncodeToString(sum[:])
	}
	place := r.Namespace + "/" + r.ID + "/"
	n.begin = place + list + "/"
	n.ownerBegin = place
	if n.owner != noNode {
		n.ownerBegin = attributes[n.owner].String() + "="
	}
	return n
}

// identities are the kinds of attributes that tell clients apart, the surest first.
var identities = []headgate.AttributeKind{
	headgate.AttrUser, headgate.AttrAPIKey, headgate.AttrJWT, headgate.AttrBearer, headgate.AttrCookie, headgate.AttrIP,
}

// ownerOf returns which of the attributes names the owner of a key: the one that tells clients apart best, so that all
// the keys of a client have the same owner, or else the first; noNode if there is none.
func ownerOf(attributes []headgate.Attribute) int {
	for _, kind := range identities {
		if i := slices.IndexFunc(attributes, func(a headgate.Attribute) bool { return a.Kind == kind }); i >= 0 {
			return i
		}
	}
	if len(attributes) > 0 {
		return 0
	}
	return noNode
}

// isShared tells whether the keys of a rule are shared by several clients.
func isShared(r *Rule) bool {
	if r.Owner != OwnerByKey {
		return r.Owner == OwnerShared
	}
	owner := ownerOf(r.Key)
	return owner == noNode || !slices.Contains(identities, r.Key[owner].Kind)
}

func (m *Matched) naming() *naming {
	if m.byIP {
		return &m.rule.byIP
	}
	return &m.rule.keyed
}

// AppendKey appends the key of the counter of one of the limits: a headgate.Check's Key. The subject is the one that was
// matched. It is AppendKeyBase with the limit's name behind it.
func (m *Matched) AppendKey(dst []byte, s Subject, limit int) []byte {
	return append(m.AppendKeyBase(dst, s), m.LimitName(limit)...)
}

// AppendKeyBase appends what the keys of all limits of this rule and client have in common.
func (m *Matched) AppendKeyBase(dst []byte, s Subject) []byte {
	n := m.naming()
	dst = append(dst, n.begin...)
	if m.value != "" { // as it was when the rule matched, in the form that it has in keys
		return appendValue(dst, m.value)
	}
	for _, a := range n.attributes {
		dst = appendValue(dst, valueOf(s, a))
	}
	return dst
}

// AppendOwner appends whose the keys are: a headgate.Check's Owner. Rules that count by the same user have the same owner,
// whatever else they count by.
func (m *Matched) AppendOwner(dst []byte, s Subject) []byte {
	n := m.naming()
	dst = append(dst, n.ownerBegin...)
	if n.owner == noNode {
		return dst
	}
	return appendValue(dst, valueOf(s, n.attributes[n.owner]))
}

func appendValue(dst []byte, value string) []byte {
	if len(value) <= longValue {
		dst = binary.AppendUvarint(dst, uint64(len(value)))
		return append(dst, value...)
	}
	dst = append(dst, 0)
	at := len(dst)
	dst = append(dst, value...)
	sum := sha256.Sum256(dst[at:])
	return append(dst[:at], sum[:]...)
}

// Limit returns one of the limits that a client comes under: first those of Limits, then those of the rule's penalty.
func (m *Matched) Limit(limit int) *Limit {
	if limit < len(m.Limits) {
		return &m.Limits[limit]
	}
	return &m.Rule.Penalty.Limits[limit-len(m.Limits)]
}

// LimitName returns the name of one of the limits, which are numbered as for Limit.
func (m *Matched) LimitName(limit int) string {
	if limit >= len(m.Limits) {
		return m.Rule.Penalty.Limits[limit-len(m.Limits)].Name
	}
	if m.client {
		if len(m.Limits) > 1 || named(&m.Limits[0]) {
			return nameUnder(m.rule.limits, m.Limits, limit)
		}
		for i := range m.rule.limits { // as nameUnder does, for what most clients have
			if own := &m.rule.limits[i]; alike(own, &m.Limits[0]) {
				return own.Name
			}
		}
		return nameUnder(m.rule.limits, m.Limits, limit)
	}
	return m.Limits[limit].Name
}

// nameUnder returns the name that a limit of an override or a client has under a rule: its own, else that of the rule's
// limit that it replaces, else the one that nameLimits made.
func nameUnder(rule, limits []Limit, at int) string {
	if named(&limits[at]) {
		return limits[at].Name
	}
	if i := alikeUnder(rule, limits, at); i >= 0 {
		return rule[i].Name
	}
	if i := onlyUnder(rule, limits, at); i >= 0 {
		return rule[i].Name
	}
	return limits[at].Name
}

// alikeUnder returns which of the rule's limits has the algorithm and the period of a limit without a name, and -1 if none has
// or another limit replaces it.
func alikeUnder(rule, limits []Limit, at int) int {
	l := &limits[at]
	nth := 0
	for i := range at {
		if !named(&limits[i]) && alike(&limits[i], l) {
			nth++
		}
	}
	for i := range rule {
		if !alike(&rule[i], l) {
			continue
		}
		if nth > 0 {
			nth--
			continue
		}
		if slices.ContainsFunc(limits, func(l Limit) bool { return l.Name == rule[i].Name }) {
			break
		}
		return i
	}
	return -1
}

// onlyUnder returns which of the rule's limits a limit replaces that is like none of them: if both have no name, and are the only
// ones on their sides that are like no other. It returns -1 if there is no such limit. Slots of concurrency are no consumption,
// and have counters of their own.
func onlyUnder(rule, limits []Limit, at int) int {
	only := -1
	for i := range rule {
		if !counts(&rule[i]) || slices.ContainsFunc(limits, func(l Limit) bool { return !named(&l) && alike(&l, &rule[i]) }) {
			continue
		}
		if only >= 0 {
			return -1
		}
		only = i
	}
	for j := range limits {
		unlike := counts(&limits[j]) && !slices.ContainsFunc(rule, func(l Limit) bool { return alike(&l, &limits[j]) })
		if unlike != (j == at) {
			return -1
		}
	}
	return only
}

// counts reports whether a limit has no name and counts what was consumed.
func counts(l *Limit) bool { return !named(l) && l.Algorithm != headgate.Concurrency }

// alike tells whether one limit can take the other's place.
func alike(a, b *Limit) bool { return a.Algorithm == b.Algorithm && a.Period == b.Period }

// named tells whether a limit has a name that someone gave it. Those that nameLimits makes begin with a digit.
func named(l *Limit) bool { return l.Name != "" && (l.Name[0] < '0' || l.Name[0] > '9') }

// penaltyMark begins the names of a penalty's limits, which have counters of their own. No other name has it.
const penaltyMark = "~"

// numberLimits names the limits of a rule that have no name by their place.
func numberLimits(limits []Limit) []Limit {
	made := slices.Clone(limits)
	for i := range made {
		if made[i].Name == "" {
			made[i].Name = strconv.Itoa(i + 1)
		}
	}
	return made
}

// nameLimits names limits that have no name by what they count: "1h", "60s-sliding-window".
func nameLimits(limits []Limit) []Limit {
	made := slices.Clone(limits)
	for i := range made {
		if made[i].Name != "" {
			continue
		}
		name := "0-concurrent"
		if l := made[i].Limit; l.Algorithm != headgate.Concurrency {
			name = FormatDuration(l.Period)
			if l.Algorithm != headgate.TokenBucket {
				name += "-" + l.Algorithm.String()
			}
		}
		made[i].Name = name
		for n := 2; slices.ContainsFunc(made[:i], func(l Limit) bool { return l.Name == made[i].Name }); n++ {
			made[i].Name = name + "-" + strconv.Itoa(n)
		}
	}
	return made
}

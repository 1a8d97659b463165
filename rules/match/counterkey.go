package match

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// The key of a counter consists of namespace/rule/attributes/, the values of the attributes, and the name of the limit:
//
//	/search-per-user/user/·alice1       for user alice and the limit 1; · is the length of the next value
//
// Each value follows its length. A long value is replaced by a zero and its hash. So two clients, or two limits of one
// client, never have the same key, whatever their names are.

// MaxPlainValue is the maximum length in bytes of a value that is not hashed.
const MaxPlainValue = 256

// A keyFormat says how the keys of a rule are built.
type keyFormat struct {
	prefix      string   // the same for all clients
	sources     []source // the attributes whose values follow
	owner       int      // index in sources of the value that identifies the owner, or noNode if the rule is the owner
	ownerPrefix string   // the text before the owner's value in Check.Owner
}

func newKeyFormat(r *rules.Rule, attributes []headgate.Attribute) keyFormat {
	f := keyFormat{sources: sourcesOf(attributes), owner: ownerOf(attributes)}
	names := make([]string, len(attributes))
	for i, a := range attributes {
		names[i] = a.String()
		if strings.ContainsAny(a.Name, `/+"`) {
			names[i] = strconv.Quote(names[i])
		}
	}
	list := strings.Join(names, "+")
	if len(list) > MaxPlainValue {
		sum := sha256.Sum256([]byte(list))
		list = hex.EncodeToString(sum[:])
	}
	rulePrefix := r.Namespace + "/" + r.ID + "/"
	f.prefix = rulePrefix + list + "/"
	f.ownerPrefix = rulePrefix
	if f.owner != noNode {
		f.ownerPrefix = attributes[f.owner].String() + "="
	}
	return f
}

// identities are the kinds of attributes that identify clients. The most reliable one is first.
var identities = []headgate.AttributeKind{
	headgate.AttrUser, headgate.AttrAPIKey, headgate.AttrJWT, headgate.AttrBearer, headgate.AttrCookie, headgate.AttrIP,
}

// ownerOf returns the index of the attribute that identifies the owner of a key: the attribute that identifies clients
// most reliably, so that all keys of a client have the same owner. If no attribute identifies clients, it is the first
// one. ownerOf returns noNode for a key without attributes.
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

// isShared reports whether the keys of a rule are shared by several clients.
func isShared(r *rules.Rule) bool {
	if r.Owner != rules.OwnerByKey {
		return r.Owner == rules.OwnerShared
	}
	owner := ownerOf(r.Key)
	return owner == noNode || !slices.Contains(identities, r.Key[owner].Kind)
}

func (m *Result) keyFormat() *keyFormat {
	if m.byIP {
		return &m.compiled.keyByIP
	}
	return &m.compiled.keyByAttrs
}

// KeyPrefixLen returns the length of a key up to its first value.
func (m *Result) KeyPrefixLen() int { return len(m.keyFormat().prefix) }

// ByIP reports whether the client is counted by its address, because an attribute of the rule's key is missing.
func (m *Result) ByIP() bool { return m.byIP }

// KeyAttributes returns the attributes whose values are in the keys of a rule: the attributes of the rule's key, or the
// address if byIP is set.
func KeyAttributes(r *rules.Rule, byIP bool) []headgate.Attribute {
	if byIP {
		return []headgate.Attribute{{Kind: headgate.AttrIP}}
	}
	list := make([]headgate.Attribute, len(r.Key))
	for i, a := range r.Key {
		list[i] = sourceOf(a).attribute
	}
	return list
}

// SplitValues returns the values in a key. text is the result of AppendKeyBase without its first KeyPrefixLen bytes. If
// a value was replaced by its hash, SplitValues returns the hash in hexadecimal digits, and the element of hashed is
// true.
func SplitValues(text string) (values []string, hashed []bool) {
	for len(text) > 0 {
		size, n := binary.Uvarint([]byte(text[:min(len(text), binary.MaxVarintLen64)]))
		if n <= 0 || size > uint64(len(text)-n) {
			return values, hashed // the text ends within a value
		}
		text = text[n:]
		isHash := size == 0 && len(text) >= sha256.Size
		if isHash {
			values = append(values, hex.EncodeToString([]byte(text[:sha256.Size])))
			text = text[sha256.Size:]
		} else {
			values = append(values, text[:size])
			text = text[size:]
		}
		hashed = append(hashed, isHash)
	}
	return values, hashed
}

// AppendKey appends the key of the counter of one of the limits, for the Key of a headgate.Check. s must be the subject
// that was matched. The key consists of what AppendKeyBase appends and the limit's name.
func (m *Result) AppendKey(dst []byte, s rules.Subject, limit int) []byte {
	return append(m.AppendKeyBase(dst, s), m.LimitName(limit)...)
}

// AppendKeyBase appends the common prefix of the keys of all limits of this rule and client.
func (m *Result) AppendKeyBase(dst []byte, s rules.Subject) []byte {
	f := m.keyFormat()
	dst = append(dst, f.prefix...)
	if m.value != "" { // the value was already read and normalized when the rule matched
		return appendValue(dst, m.value, false)
	}
	for i := range f.sources {
		dst = f.sources[i].appendTo(dst, s)
	}
	return dst
}

// AppendOwner appends the owner of the keys, for the Owner of a headgate.Check. All rules that count by the same user
// have the same owner, even if their keys have other attributes as well.
func (m *Result) AppendOwner(dst []byte, s rules.Subject) []byte {
	f := m.keyFormat()
	dst = append(dst, f.ownerPrefix...)
	if f.owner == noNode {
		return dst
	}
	return f.sources[f.owner].appendTo(dst, s)
}

// appendValue appends the length of a value and the value, or a zero and the hash of a long value. If lower is set, it
// converts the value to lower case.
func appendValue(dst []byte, value string, lower bool) []byte {
	size := len(value)
	if size > MaxPlainValue {
		size = 0
	}
	dst = binary.AppendUvarint(dst, uint64(size))
	at := len(dst)
	dst = append(dst, value...)
	if lower {
		lowerInPlace(dst[at:])
	}
	if len(value) > MaxPlainValue {
		sum := sha256.Sum256(dst[at:])
		dst = append(dst[:at], sum[:]...)
	}
	return dst
}

// Limit returns one of the limits that apply to a client: first those of Limits, then those of the rule's penalty.
func (m *Result) Limit(limit int) *rules.Limit {
	if limit < len(m.Limits) {
		return &m.Limits[limit]
	}
	return &m.Rule.Penalty.Limits[limit-len(m.Limits)]
}

// LimitName returns the name of one of the limits. The parameter is an index as in Limit.
func (m *Result) LimitName(limit int) string {
	if m.hasClientLimits && limit < len(m.Limits) {
		return rules.LimitNameUnder(m.compiled.limits, m.Limits, limit)
	}
	return m.Limit(limit).Name
}

package rules

import (
	"net/netip"
	"strings"

	"github.com/headgate/headgate"
)

// A key is what a condition can stand under in an index.
type key struct {
	kind keyKind
	slot int          // of byValue, byRun and byForm
	host string       // of byPlace: a host, a domain with its dot in front, or empty for any
	text string       // a value, or a pattern
	net  netip.Prefix // of byNet
}

type keyKind uint8

const (
	byPlace keyKind = iota // host and pattern of the path, which may be anyPath
	byTail                 // the last segment of the path
	byName                 // the last segment of a path that begins with a slash, as all do
	byNet
	byValue
	byRun
	byForm // a pattern of the path in a form of a rule's own
)

// A keySet is keys of which at least one fits every request that some tests hold for.
type keySet struct {
	keys []key
	// implied are the tests that need not be looked at again if one of the keys fits.
	implied []*Test
}

// keysOf returns the keys of a test alone, and whether any of them proves it. It has none if one of its values would not
// tell requests apart.
func keysOf(slot int, t *Test) (keys []key, proven bool) {
	keys, proven = make([]key, 0, len(t.Values)), true
	for _, value := range t.Values {
		p, _ := readPattern(t.Attribute.Kind, value)
		k := key{slot: slot, text: p.text, net: p.net}
		proves := true
		switch {
		case p.text == anyRun:
			return nil, false
		case p.net.IsValid():
			k.kind, k.slot = byNet, 0
		case t.Attribute.Kind == headgate.AttrPath && t.Attribute.Name == "":
			k, proves = pathKey(p.text)
		case t.Attribute.Kind == headgate.AttrHost:
			k = key{kind: byPlace, host: domainOf(p.text), text: anyPath}
			proves = p.exact() || p.text == anyRun+k.host
		case p.exact():
			k.kind = byValue
		case t.Attribute.Kind == headgate.AttrPath:
			r := pathRoute(p.text)
			k.kind, proves = byForm, r.end != endsMore
		default:
			k.kind, proves = byRun, false
		}
		if !k.selective() {
			return nil, false
		}
		keys, proven = append(keys, k), proven && proves
	}
	return keys, proven
}

// pathKey returns how to find a pattern of a path, and whether that proves it: from its beginning, or by its last segment
// if it begins with stars.
func pathKey(pattern string) (k key, proves bool) {
	r := pathRoute(pattern)
	if tail := pattern[strings.LastIndexByte(pattern, '/')+1:]; !r.selective() && tail != "" && !hasStars(tail) {
		if pattern == "/"+anyPath+"/"+tail {
			return key{kind: byName, text: tail}, true
		}
		return key{kind: byTail, text: tail}, pattern == anyPath+"/"+tail
	}
	return key{kind: byPlace, text: pattern}, r.end != endsMore
}

// domainOf returns the host, or the domain with its dot in front that all hosts of a pattern are below; empty if there is
// none.
func domainOf(pattern string) string {
	i := strings.LastIndexByte(pattern, star)
	if i < 0 {
		return pattern
	}
	domain := pattern[i+1:]
	for strings.Count(domain, ".") > mostDots {
		domain = domain[1:]
	}
	if dot := strings.IndexByte(domain, '.'); dot >= 0 {
		return domain[dot:]
	}
	return ""
}

// mostDots is how many dots a domain can have that hosts are found below.
const mostDots = 63

// selective tells whether the key tells requests apart.
func (k *key) selective() bool {
	switch k.kind {
	case byPlace:
		r := pathRoute(k.text)
		return k.host != "" || r.selective()
	case byNet:
		return k.net.Bits() > 0
	case byForm:
		r := pathRoute(k.text)
		return r.selective()
	case byRun:
		r := runRoute(k.text)
		return r.texts[0] != ""
	default:
		return true
	}
}

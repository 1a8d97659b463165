package match

import (
	"net/netip"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/internal/pattern"
)

// An indexKey is a key by which an index finds conditions.
type indexKey struct {
	kind keyKind
	attr int          // the number of the attribute, for byPresence and the kinds below it
	host string       // for byHostPath: a host, a domain with a leading dot, or "" for any host
	text string       // a value or a pattern
	net  netip.Prefix // for byNet
}

type keyKind uint8

const (
	byHostPath          keyKind = iota // a host and a path pattern, which may be pattern.AnySegments
	byLastSegment                      // the last segment of the path
	byRootedLastSegment                // the last segment of a path that begins with a slash, as almost all paths do
	byNet                              // a network that contains the client's address
	byPresence                         // any value
	byValue                            // an exact value
	byPrefix                           // the beginning of a pattern
	bySuffix                           // the end of a pattern
	bySubstring                        // a text in a pattern
	byNormalizedPath                   // a path pattern with another normalization than that of byHostPath
)

// A keySet is a set of keys under which a condition can be indexed. If the condition is true of a request, at least one
// of the keys matches the request.
type keySet struct {
	keys []indexKey
	// implied are the tests that hold for every request that one of the keys matches.
	implied []*rules.Test
}

// testKeys returns the keys that find a test by a part of its patterns. proven reports whether the test holds for every
// request that one of the keys matches. testKeys returns no keys if one of the values does not distinguish requests, or
// if the keys for this part are the same as for partStart.
func testKeys(attr int, t *rules.Test, part patternPart) (keys []indexKey, proven bool) {
	keys, proven = make([]indexKey, 0, len(t.Values)), true
	differs := part == partStart
	for _, value := range t.Values {
		p, _ := pattern.Parse(t.Attribute.Kind, value)
		if p.Text == pattern.AnyText && (part != partStart || !hasNames(t.Attribute.Kind)) {
			return nil, false
		}
		k, proves := patternKey(attr, t.Attribute.Kind, p, part)
		if !k.selective() {
			return nil, false
		}
		keys, proven = append(keys, k), proven && proves
		differs = differs || !p.Net.IsValid() && !p.Exact()
	}
	if !differs {
		return nil, false
	}
	return keys, proven
}

// patternKey returns the key that finds a pattern by a part, and whether every value that the key matches also matches
// the pattern. The part makes a difference only for patterns with stars.
func patternKey(attr int, kind headgate.AttributeKind, p pattern.Pattern, part patternPart) (k indexKey, proves bool) {
	switch {
	case p.Text == pattern.AnyText:
		return indexKey{kind: byPresence, attr: attr}, true
	case p.Net.IsValid():
		return indexKey{kind: byNet, net: p.Net}, true
	case part != partStart && !p.Exact():
		return literalKey(attr, kind, p.Text, part)
	case attr == attrPath:
		return pathKey(p.Text)
	case kind == headgate.AttrHost:
		domain := domainOf(p.Text)
		k = indexKey{kind: byHostPath, host: domain, text: pattern.AnySegments}
		return k, p.Exact() || p.Text == pattern.AnyText+domain
	case p.Exact():
		return indexKey{kind: byValue, attr: attr, text: p.Text}, true
	case kind == headgate.AttrPath:
		r := pathRoute(p.Text)
		return indexKey{kind: byNormalizedPath, attr: attr, text: p.Text}, r.end != endPrefix
	default:
		starAtEnd := strings.IndexByte(p.Text, pattern.Star) == len(p.Text)-1
		return indexKey{kind: byPrefix, attr: attr, text: p.Text}, starAtEnd
	}
}

// pathKey returns the key of a path pattern, and whether every path that the key matches also matches the pattern. The
// key is the beginning of the pattern, or its last segment if it begins with stars.
func pathKey(glob string) (k indexKey, proves bool) {
	r := pathRoute(glob)
	if tail := glob[strings.LastIndexByte(glob, '/')+1:]; !r.selective() && tail != "" && !pattern.HasStars(tail) {
		if glob == "/"+pattern.AnySegments+"/"+tail {
			return indexKey{kind: byRootedLastSegment, text: tail}, true
		}
		return indexKey{kind: byLastSegment, text: tail}, glob == pattern.AnySegments+"/"+tail
	}
	return indexKey{kind: byHostPath, text: glob}, r.end != endPrefix
}

// domainOf returns the domain that contains all hosts that match a pattern, with a leading dot, or "" if there is no
// such domain. If there are no stars in the pattern, it returns the pattern.
func domainOf(glob string) string {
	i := strings.LastIndexByte(glob, pattern.Star)
	if i < 0 {
		return glob
	}
	domain := glob[i+1:]
	for strings.Count(domain, ".") > maxDomainDots {
		domain = domain[1:]
	}
	if dot := strings.IndexByte(domain, '.'); dot >= 0 {
		return domain[dot:]
	}
	return ""
}

// maxDomainDots is the maximum number of dots in an indexed domain, because index.domainDots has 64 bits.
const maxDomainDots = 63

// indexed returns the key with only the indexed part of its pattern. Keys with equal indexed parts match the same
// requests.
func (k indexKey) indexed() indexKey {
	switch k.kind {
	case byPrefix:
		k.text = prefixRoute(k.text).texts[0]
	case byHostPath, byNormalizedPath:
		r := pathRoute(k.text)
		k.text = strings.Join(r.texts, pattern.AnyText) + string(rune(r.end))
	}
	return k
}

// selective reports whether the key distinguishes requests.
func (k *indexKey) selective() bool {
	switch k.kind {
	case byHostPath:
		r := pathRoute(k.text)
		return k.host != "" || r.selective()
	case byNet:
		return k.net.Bits() > 0
	case byNormalizedPath:
		r := pathRoute(k.text)
		return r.selective()
	case byPrefix:
		r := prefixRoute(k.text)
		return r.texts[0] != ""
	case bySuffix, bySubstring:
		return k.text != ""
	default:
		return true
	}
}

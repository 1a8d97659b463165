package match

import (
	"net/textproto"
	"sync"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// maxNamesReadAlways is the largest number of names of one kind, such as header names, for which the attributes are
// read from every request. If rules use more names, only the attributes that the request lists are read.
const maxNamesReadAlways = 16

// namedTables are the tables of attributes of one kind with more than maxNamesReadAlways names.
type namedTables struct {
	kind   headgate.AttributeKind
	byName *textTable[int32] // indexes in tables
	tables []table
}

// hasNames reports whether a request can list the names of its attributes of a kind.
func hasNames(kind headgate.AttributeKind) bool {
	switch kind {
	case headgate.AttrHeader, headgate.AttrCookie, headgate.AttrQuery, headgate.AttrDescriptor:
		return true
	default:
		return false
	}
}

// addNamed adds the tables of a kind of attributes.
func (x *index) addNamed(kind headgate.AttributeKind, tables []table, attributes []headgate.Attribute) {
	if len(tables) <= maxNamesReadAlways {
		x.tables = append(x.tables, tables...)
		return
	}
	byName := make(map[string]int32, 2*len(tables))
	for i, t := range tables {
		name := attributes[t.attr].Name
		byName[name] = int32(i)
		if kind == headgate.AttrHeader { // AppendNames lists header names in lower case or in canonical form
			byName[textproto.CanonicalMIMEHeaderKey(name)] = int32(i)
		}
	}
	x.named = append(x.named, namedTables{kind: kind, byName: newTextTable(byName), tables: tables})
}

// findNamed finds conditions by the values of the attributes in n.
func (x *index) findNamed(n *namedTables, c *collector, p *probe) {
	if lister, ok := p.subject.(rules.NameLister); ok && x.findListed(lister, n, c, p) {
		return
	}
	for i := range n.tables {
		x.findValue(&n.tables[i], c, p)
	}
}

// findListed finds conditions by the values of the attributes whose names the request lists. It does nothing and
// returns false if the request cannot list its names, or has more names than there are tables. In the second case it is
// faster to read the attribute of each table.
func (x *index) findListed(lister rules.NameLister, n *namedTables, c *collector, p *probe) bool {
	buffer := nameBuffers.Get().(*nameBuffer)
	names, ok := lister.AppendNames(buffer.names[:0], n.kind)
	ok = ok && len(names) <= len(n.tables)
	if ok {
		for _, name := range names {
			if at, ok := n.byName.find(name); ok {
				x.findValue(&n.tables[at], c, p)
			}
		}
	}
	clear(names)
	buffer.names = names
	if cap(names) <= maxNameBuffer {
		nameBuffers.Put(buffer)
	}
	return ok
}

// A nameBuffer is memory for names. It is reused, because a local array would escape to the heap: AppendNames is a
// method of an interface.
type nameBuffer struct{ names []string }

var nameBuffers = sync.Pool{New: func() any { return new(nameBuffer) }}

// maxNameBuffer is the maximum capacity of a buffer that is reused.
const maxNameBuffer = 256

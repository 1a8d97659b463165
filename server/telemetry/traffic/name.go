package traffic

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/control/nodequery"
)

// A NameMode is the form in which the values of clients are kept in the statistics.
type NameMode string

// The modes.
const (
	Clear NameMode = "clear" // as they are, except values that may be secret, which are hidden
	Hash  NameMode = "hash"  // only hashes
	Off   NameMode = "off"   // clients are not counted
)

// A RawClient is a JSON object of attributes. It is a string because it is used as a map key.
type RawClient string

var errClient = errors.New("want an object of texts")

// MarshalJSON returns the object.
func (c RawClient) MarshalJSON() ([]byte, error) {
	if c == "" {
		return []byte("{}"), nil
	}
	return []byte(c), nil
}

// UnmarshalJSON reads an object of attributes.
func (c *RawClient) UnmarshalJSON(data []byte) error {
	var attributes map[string]string
	if err := json.Unmarshal(data, &attributes); err != nil {
		return fmt.Errorf("client: %w", errClient)
	}
	if len(attributes) > maxAttributes || len(data) > maxClient {
		return fmt.Errorf("client: %w of at most %d bytes", errClient, maxClient)
	}
	*c = NewClient(attributes)
	return nil
}

const (
	maxAttributes = 16
	maxClient     = 2 << 10 // bytes
)

// NewClient returns a client with attributes.
func NewClient(attributes map[string]string) RawClient {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(attributes); err != nil { // sorted by name
		return "{}"
	}
	return RawClient(strings.TrimSpace(b.String()))
}

// Attributes returns the attributes of a client.
func (c RawClient) Attributes() map[string]string {
	attributes := map[string]string{}
	if c != "" {
		_ = json.Unmarshal([]byte(c), &attributes) // it was encoded by NewClient
	}
	return attributes
}

// Agrees reports whether a client may be the client with the given attributes, whose values are in the form of
// Namer.Kept. The two must have an attribute in common, and the same value of each common attribute.
func (c RawClient) Agrees(kept map[string]string) bool {
	common := false
	for name, value := range c.Attributes() {
		other, known := kept[name]
		if known && !sameKept(other, value) {
			return false
		}
		common = common || known
	}
	return common
}

// A Namer converts values of clients into the form in which the statistics keep them: unchanged, or hidden by a hash.
type Namer struct {
	names  NameMode
	key    []byte
	hashes sync.Pool // of hash.Hash; reused because the first use has to hash the key
}

// NewNamer returns a Namer. Namers with the same secret give a value the same hash.
func NewNamer(names NameMode, secret []byte) *Namer {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("headgate traffic"))
	n := &Namer{names: names, key: mac.Sum(nil)}
	n.hashes.New = func() any { return hmac.New(sha256.New, n.key) }
	return n
}

// CountsClients reports whether clients are counted.
func (n *Namer) CountsClients() bool { return n.names != Off }

// seed returns the seed of hashes that nodes with the same secret share.
func (n *Namer) seed() uint64 { return binary.LittleEndian.Uint64(n.key) }

// shownSecret is the number of bytes that Hidden shows of a secret of at least longSecret bytes.
const (
	shownSecret = 4
	longSecret  = 16
)

// Hidden returns the hidden form of a secret: its first characters, if it is long, and its hash.
func (n *Namer) Hidden(value string) string {
	shown := ""
	if len(value) >= longSecret && n.names != Hash {
		shown = strings.ToValidUTF8(value[:shownSecret], "") + "…"
	}
	return shown + n.HashOf(value)
}

// IsHidden reports whether a value has the form of Hidden.
func IsHidden(value string) bool {
	at := strings.LastIndexByte(value, '#')
	if at < 0 || len(value)-at != 17 || at > 0 && !strings.HasSuffix(value[:at], "…") {
		return false
	}
	_, err := hex.DecodeString(value[at+1:])
	return err == nil
}

// HashOf returns the hash of a value: '#' and 16 digits.
func (n *Namer) HashOf(value string) string {
	mac := n.hashes.Get().(hash.Hash)
	defer n.hashes.Put(mac)
	mac.Reset()
	mac.Write([]byte(value))
	return "#" + hex.EncodeToString(mac.Sum(nil)[:8])
}

// Kept returns the form in which the value of an attribute is kept.
func (n *Namer) Kept(attribute, value string) string {
	if hash := hashOfLong(value); hash != "" {
		return "…#" + hash
	}
	if n.names == Hash || nodequery.MayBeSecret(attribute) {
		return n.Hidden(value)
	}
	return value
}

// hashOfLong returns the hash that replaces a value that is too long for a table, empty for other values. It is the one
// of a key with no other attribute.
func hashOfLong(value string) string {
	hashed := []byte(value) // match hashes values longer than MaxPlainValue
	if len(value) <= match.MaxPlainValue {
		// A table has only the beginning of the encoded values, and their hash.
		hashed = append(binary.AppendUvarint(nil, uint64(len(value))), value...)
		if len(hashed) <= maxValues {
			return ""
		}
	}
	sum := sha256.Sum256(hashed)
	return hex.EncodeToString(sum[:hashSuffix])
}

// Client returns the client with the given attributes, whose values it converts with Kept.
func (n *Namer) Client(attributes map[string]string) RawClient {
	kept := make(map[string]string, len(attributes))
	for name, value := range attributes {
		kept[name] = n.Kept(name, value)
	}
	return NewClient(kept)
}

// name returns the client of an entry of a table.
func (n *Namer) name(c *countedClient) RawClient {
	text, hash := c.values, ""
	if c.truncated {
		text, hash = text[:maxValues-2*hashSuffix], text[maxValues-2*hashSuffix:]
	}
	return n.Name(match.KeyAttributes(c.rule.rule.Load(), c.byIP), text, hash)
}

// Name returns the client with the given attributes. text has their values, encoded for match.SplitValues. If text was
// truncated, hash replaces the missing values.
func (n *Namer) Name(attributes []headgate.Attribute, text, hash string) RawClient {
	if len(attributes) == 0 {
		return "{}"
	}
	values, hashed := match.SplitValues(text)
	kept := make(map[string]string, len(attributes))
	for i, a := range attributes {
		switch name := a.String(); {
		case i >= len(values):
			kept[name] = "…#" + hash
		case hashed[i]:
			kept[name] = "…#" + values[i][:2*hashSuffix]
		default:
			value := n.Kept(name, values[i])
			if !utf8.ValidString(value) {
				value = strings.ToValidUTF8(value, "\ufffd")
			}
			kept[name] = value
		}
	}
	return NewClient(kept)
}

// matches reports whether an attribute of a client contains a text in lower case, or has one of the given values.
func (c RawClient) matches(lower string, kept []string) bool {
	for _, value := range c.Attributes() {
		if strings.Contains(strings.ToLower(value), lower) ||
			slices.ContainsFunc(kept, func(other string) bool { return sameKept(value, other) }) {
			return true
		}
	}
	return false
}

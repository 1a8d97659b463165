package fleetredis

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/ascii85"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"

	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/fleet"
)

// Secret returns the secret for hashing the keys of limits. It is the same for all nodes that share the store.
func Secret(ctx context.Context, store *redisstore.Store) ([]byte, error) {
	return store.DeriveSecret(ctx, "fleet")
}

var validName = regexp.MustCompile(`^[A-Za-z0-9._:/-]{1,64}$`)

// defaultName is the name of a fleet whose name is not set.
const defaultName = "fleet"

// keyPrefix returns the start of the Redis keys of a fleet.
func keyPrefix(store *redisstore.Store, name string) (string, error) {
	name = cmp.Or(name, defaultName)
	if !validName.MatchString(name) {
		return "", fmt.Errorf("fleetredis: fleet name %q: want 1 to 64 letters, digits and . - _ : /", name)
	}
	return store.Prefix() + ":" + name, nil
}

const (
	keyBytes     = 16
	keyNameBytes = 20 // length of a key in base 85
)

// keyName encodes a fleet's key for the end of its Redis key.
func keyName(key string) string {
	var text [keyNameBytes]byte
	return string(text[:ascii85.Encode(text[:], []byte(key))])
}

// groupTag returns the hash tag of a group of keys, which determines their slot in a cluster. It includes a hash of the
// group number, because the numbers alone would select neighboring slots, which are on few servers.
func groupTag(group int) string {
	sum := sha256.Sum256([]byte{byte(group)})
	return "{" + hex.EncodeToString(sum[:2]) + strconv.Itoa(group) + "}"
}

// A keyGroup has the indices of the keys of one group.
type keyGroup struct {
	number int
	index  []int
}

// groupKeys sorts the keys 0 to n-1 by their groups.
func groupKeys(n int, key func(i int) string) ([]keyGroup, error) {
	var index [fleet.KeyGroups][]int
	for i := range n {
		k := key(i)
		if len(k) != keyBytes {
			return nil, fmt.Errorf("fleetredis: a key of %d bytes: want %d", len(k), keyBytes)
		}
		number := int(k[0]) % fleet.KeyGroups
		index[number] = append(index[number], i)
	}
	var groups []keyGroup
	for number, list := range index {
		if list != nil {
			groups = append(groups, keyGroup{number, list})
		}
	}
	return groups, nil
}

// indices returns 0 to n-1.
func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// integers parses a script's reply. It reports whether all values are integers.
func integers(values []string) (list []int64, ok bool) {
	list = make([]int64, len(values))
	for i, v := range values {
		var err error
		if list[i], err = strconv.ParseInt(v, 10, 64); err != nil {
			return nil, false
		}
	}
	return list, true
}

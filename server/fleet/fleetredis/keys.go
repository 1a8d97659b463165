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

// keyPrefix returns the start of the Redis keys of a fleet in a store with the given prefix.
func keyPrefix(store, name string) (string, error) {
	name = cmp.Or(name, defaultName)
	if !validName.MatchString(name) {
		return "", fmt.Errorf("fleetredis: fleet name %q: want 1 to 64 letters, digits and . - _ : /", name)
	}
	return store + ":" + name, nil
}

const (
	keyBytes     = 16
	keyNameBytes = 20 // maximum length of a key in base 85
)

// keyName encodes a fleet's key for the end of its Redis key.
func keyName(key string) string { return string(appendKeyName(nil, key)) }

// appendKeyName appends the keyName of a key.
func appendKeyName(b []byte, key string) []byte {
	var raw [keyBytes]byte
	var text [keyNameBytes]byte
	copy(raw[:], key)
	return append(b, text[:ascii85.Encode(text[:], raw[:])]...)
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

// splitIntoGroups sorts the keys 0 to n-1 by their groups.
func splitIntoGroups(n int, key func(i int) string) ([]keyGroup, error) {
	var sizes [fleet.KeyGroups]int
	for i := range n {
		k := key(i)
		if len(k) != keyBytes {
			return nil, fmt.Errorf("fleetredis: a key of %d bytes: want %d", len(k), keyBytes)
		}
		sizes[k[0]%fleet.KeyGroups]++
	}
	var index [fleet.KeyGroups][]int
	all, count := make([]int, n), 0
	for number, size := range sizes {
		if size > 0 {
			index[number], all = all[:0:size], all[size:]
			count++
		}
	}
	for i := range n {
		number := key(i)[0] % fleet.KeyGroups
		index[number] = append(index[number], i)
	}
	groups := make([]keyGroup, 0, count)
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

package redistest

import "strings"

// Slots is the number of slots of a cluster.
const Slots = 16384

// SlotOf returns the slot of a key. If the key has a hash tag, as in "{alice}:requests", only the tag
// determines the slot.
func SlotOf(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	return int(crc16(key) % Slots)
}

// crc16 is CRC-16/XMODEM.
func crc16(s string) uint16 {
	var sum uint16
	for i := range len(s) {
		sum ^= uint16(s[i]) << 8
		for range 8 {
			carry := sum&0x8000 != 0
			sum <<= 1
			if carry {
				sum ^= 0x1021
			}
		}
	}
	return sum
}

// Package fallback determines the share of each limit that a node may use while its peers are unreachable.
package fallback
